import type { ResponseRow } from '../../protocol/response-rows.ts';
import { RESPONSE_STATUSES } from '../../protocol/response-statuses.ts';
import * as format from '../../show/format.ts';
import type { FilterField } from '../controls/filters.tsx';
import { List } from '../controls/list.tsx';
import { ResponseMark } from '../controls/marks.tsx';
import type { Listed } from '../controls/paged-list.ts';
import type { Column } from '../controls/table.tsx';
import { Age, Time } from '../controls/time.tsx';
import { fleet } from '../live.ts';
import { href } from '../router.ts';

const ROW_PX = 32;

const STATUS_WORDS: Record<ResponseRow['status'], string> = {
  queued: 'waiting',
  in_progress: 'running',
  completed: 'completed',
  incomplete: 'incomplete',
  failed: 'failed',
  cancelled: 'cancelled',
};

const RESPONSES: Listed<ResponseRow> = {
  path: 'api/responses',
  rowsOf: ({ responses }) => responses as ResponseRow[],
  idOf: ({ id }) => id,
  timeOf: ({ created_at }) => created_at,
};

/** Shows the responses that are stored, newest first. */
export function ResponsesView() {
  return (
    <section class="view" aria-labelledby="responses-title">
      <p class="crumbs">
        <a href={href('requests')}>Requests</a>
      </p>
      <h1 id="responses-title">Responses</h1>
      <List
        listed={RESPONSES}
        label="Stored responses, newest first"
        what="response"
        columns={RESPONSE_COLUMNS}
        rowHeight={ROW_PX}
        pathOf={pathOf}
        fields={fieldsOf()}
        timeLabel="Created"
      >
        No response is stored. A request to <code>/v1/responses</code> leaves one, unless it says{' '}
        <code>"store":&nbsp;false</code>.
      </List>
    </section>
  );
}

/** Returns the path of the view of one response. */
export function pathOf({ id }: Pick<ResponseRow, 'id'>): string {
  return `responses/${encodeURIComponent(id)}`;
}

function fieldsOf(): FilterField[] {
  const models = [...new Set((fleet.value?.pools ?? []).flatMap(({ models }) => models))].sort();
  const field = (name: string, label: string, more: Partial<FilterField> = {}): FilterField => ({
    name,
    parameter: name,
    label,
    ...more,
  });
  return [
    field('id', 'Id begins with'),
    field('status', 'State', { options: RESPONSE_STATUSES, words: STATUS_WORDS }),
    field('model', 'Model', { options: models }),
    field('tenant', 'Tenant'),
    field('conversation', 'Conversation'),
  ];
}

/** The columns of lists of responses. */
export const RESPONSE_COLUMNS: Column<ResponseRow>[] = [
  {
    key: 'status',
    head: 'State',
    width: 112,
    narrow: 106,
    cell: ({ status }) => <ResponseMark status={status} />,
  },
  {
    key: 'id',
    head: 'Id',
    width: 118,
    cell: (row) => (
      <a class="id" href={href(pathOf(row))} title={row.id}>
        {format.shortId(row.id)}
      </a>
    ),
  },
  {
    key: 'created',
    head: 'Created',
    width: 84,
    narrow: 78,
    isNumber: true,
    cell: ({ created_at }) => <Age at={created_at} />,
  },
  {
    key: 'model',
    head: 'Model',
    width: 168,
    drop: 5,
    cell: ({ model }) => (
      <span title={model ?? undefined}>{model?.slice(model.lastIndexOf('/') + 1) ?? format.UNKNOWN}</span>
    ),
  },
  {
    key: 'tenant',
    head: 'Tenant',
    width: 100,
    drop: 4,
    cell: ({ tenant, token_name }) => (
      <span title={token_name ?? undefined}>{tenant ?? token_name ?? format.UNKNOWN}</span>
    ),
  },
  {
    key: 'background',
    head: 'Made',
    width: 118,
    drop: 3,
    cell: ({ is_background }) => (is_background ? 'in the background' : 'for its caller'),
  },
  {
    key: 'previous',
    head: 'Goes on from',
    width: 118,
    drop: 3,
    cell: ({ previous_response_id: previous }) =>
      previous && (
        <a class="id" href={href(pathOf({ id: previous }))} title={previous}>
          {format.shortId(previous)}
        </a>
      ),
  },
  {
    key: 'conversation',
    head: 'Conversation',
    width: 118,
    drop: 3,
    cell: ({ conversation }) =>
      conversation && (
        <a
          class="id"
          href={href(`responses?conversation=${encodeURIComponent(conversation)}`)}
          title={`${conversation}: show all that were made in it`}
        >
          {format.shortId(conversation)}
        </a>
      ),
  },
  {
    key: 'kept',
    head: 'Kept until',
    width: 150,
    isNumber: true,
    drop: 5,
    cell: ({ expires_at }) => <Time at={expires_at} />,
  },
];
