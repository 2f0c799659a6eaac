import { REQUEST_KINDS, REQUEST_OUTCOMES } from '../../protocol/request-outcomes.ts';
import { type RequestRecord, tokensPerSecond } from '../../protocol/request-record.ts';
import * as format from '../../show/format.ts';
import type { FilterField } from '../controls/filters.tsx';
import { List } from '../controls/list.tsx';
import { RequestMark } from '../controls/marks.tsx';
import type { Listed, PagedList } from '../controls/paged-list.ts';
import type { Column } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { WorkerLink } from '../controls/worker-link.tsx';
import { fleet } from '../live.ts';
import { href, query } from '../router.ts';
import { session } from '../session.ts';
import { tokensInWords } from '../usage.ts';

const ROW_PX = 32;

const KIND_WORDS = { live: 'live', stored: 'stored job', batch: 'batch line' };
const SLOW_WORDS = { true: 'slow ones', false: 'the others' };

const REQUESTS: Listed<RequestRecord> = {
  path: 'api/requests',
  rowsOf: ({ requests }) => requests as RequestRecord[],
  // A job that is retried by hand ends twice, so its id alone is not unique.
  idOf: ({ id, ended_at }) => `${id} ${ended_at}`,
  timeOf: ({ ended_at }) => ended_at,
};

/** Shows requests of every kind that have ended, newest first. */
export function RequestsView() {
  const fields = fieldsOf();
  return (
    <section class="view" aria-labelledby="requests-title">
      <h1 id="requests-title">Requests</h1>
      <p class="dim">
        Responses that <code>/v1/responses</code> stored have{' '}
        <a href={href('responses')}>a list of their own</a>.
      </p>
      <List
        listed={REQUESTS}
        label="Requests that have ended, newest first"
        what="request"
        whatFits="request that has ended"
        columns={session.value?.asks_for_token === false ? WITHOUT_TOKENS : COLUMNS}
        rowHeight={ROW_PX}
        pathOf={({ id }) => `jobs/${encodeURIComponent(id)}`}
        fields={fields.first}
        more={fields.more}
        timeLabel="Ended"
        notesOf={(list) => <Notes list={list} />}
      >
        No request has ended yet. <a href={href('try')}>Try it</a>, or send one to <code>/v1/…</code>: it is
        listed here within a second of its end.
      </List>
    </section>
  );
}

/** Shows which requests are not in the list. */
function Notes({ list: { rows, isLoading } }: { list: PagedList<RequestRecord> }) {
  const id = query.value.get('id');
  const sampled = Math.max(1, ...rows.map(({ stands_for }) => stands_for));
  return (
    <>
      {sampled > 1 && (
        <p class="dim">
          There were too many requests to list each: the list has all that failed or were slow, and of the
          others as few as one in {format.count(sampled)}.
        </p>
      )}
      {!isLoading && id && (
        <p>
          A stored job that waits or runs is not here yet:{' '}
          <a href={href(`jobs?id=${encodeURIComponent(id)}`)}>look among the jobs</a>.
        </p>
      )}
    </>
  );
}

function fieldsOf(): { first: FilterField[]; more: FilterField[] } {
  const pools = fleet.value?.pools ?? [];
  const models = [...new Set(pools.flatMap(({ models }) => models))].sort();
  const field = (name: string, label: string, more: Partial<FilterField> = {}): FilterField => ({
    name,
    parameter: name,
    label,
    ...more,
  });
  return {
    first: [
      field('id', 'Id begins with'),
      field('outcome', 'Outcome', { options: REQUEST_OUTCOMES }),
      field('slow', 'Slow', { options: ['true', 'false'], words: SLOW_WORDS }),
      field('config_id', 'Pool', { options: pools.map(({ config_id }) => config_id) }),
      field('model', 'Model', { options: models }),
      field('text', 'Error says'),
    ],
    more: [
      field('error_code', 'Error code'),
      field('worker_id', 'Worker'),
      field('token', 'Token'),
      field('tenant', 'Tenant'),
      field('route', 'Route or type'),
      field('kind', 'Kind', { options: REQUEST_KINDS, words: KIND_WORDS }),
    ],
  };
}

const COLUMNS: Column<RequestRecord>[] = [
  {
    key: 'outcome',
    head: 'Outcome',
    width: 104,
    narrow: 98,
    cell: ({ outcome }) => <RequestMark outcome={outcome} />,
  },
  {
    key: 'id',
    head: 'Id',
    title: 'The id of its job (X-Job-Id)',
    width: 118,
    drop: 5,
    cell: ({ id, request_id }) => (
      <a
        class="id"
        href={href(`jobs/${encodeURIComponent(id)}`)}
        title={request_id === null ? id : `${id}, which its caller calls ${request_id}`}
      >
        {format.shortId(id)}
      </a>
    ),
  },
  {
    key: 'ended',
    head: 'Ended',
    width: 84,
    narrow: 78,
    isNumber: true,
    cell: ({ ended_at }) => <Age at={ended_at} />,
  },
  {
    key: 'model',
    head: 'Model',
    title: 'Its model, and the pool that it went to',
    width: 168,
    cell: ({ model, config_id }) => (
      <span title={`model ${model}, pool ${config_id}`}>
        {model.slice(model.lastIndexOf('/') + 1) || config_id}
      </span>
    ),
  },
  {
    key: 'route',
    head: 'Route',
    width: 150,
    drop: 2,
    cell: ({ route, kind }) => (
      <span title={`${KIND_WORDS[kind]}: ${route}`}>{kind === 'batch' ? `batch: ${route}` : route}</span>
    ),
  },
  {
    key: 'token',
    head: 'Token',
    width: 88,
    drop: 3,
    cell: ({ token_name, tenant }) => (
      <span title={tenant ?? undefined}>{token_name ?? tenant ?? format.UNKNOWN}</span>
    ),
  },
  {
    key: 'worker',
    head: 'Worker',
    width: 136,
    drop: 3,
    cell: ({ worker_id }) => <WorkerLink id={worker_id} />,
  },
  {
    key: 'tokens',
    head: 'Tokens',
    title: 'Tokens of its prompt, and tokens that were generated',
    width: 108,
    isNumber: true,
    drop: 4,
    cell: ({ tokens_in, tokens_out }) =>
      tokens_in === null && tokens_out === null
        ? format.UNKNOWN
        : `${tokensInWords(tokens_in)} → ${tokensInWords(tokens_out)}`,
  },
  {
    key: 'waited',
    head: 'Waited',
    title: 'From its submission to a slot',
    width: 68,
    isNumber: true,
    drop: 4,
    cell: ({ wait_ms }) => format.duration(wait_ms),
  },
  {
    key: 'first',
    head: 'First token',
    title: 'From its submission to the first token of a streamed answer',
    width: 84,
    isNumber: true,
    drop: 4,
    cell: ({ first_token_ms, is_slow }) => (
      <span class={is_slow ? 'warn' : undefined} title={is_slow ? 'slow' : undefined}>
        {format.duration(first_token_ms)}
      </span>
    ),
  },
  {
    key: 'speed',
    head: 'Tokens/s',
    title: 'While the answer came',
    width: 72,
    isNumber: true,
    drop: 3,
    cell: (request) => format.amount(tokensPerSecond(request)),
  },
  {
    key: 'total',
    head: 'Total',
    width: 68,
    narrow: 64,
    isNumber: true,
    cell: ({ total_ms }) => format.duration(total_ms),
  },
  {
    key: 'attempts',
    head: 'Attempts',
    width: 68,
    isNumber: true,
    drop: 2,
    cell: ({ attempts }) => format.count(attempts),
  },
  {
    key: 'error',
    head: 'Error',
    drop: 5,
    cell: ({ error_code, error }) =>
      error_code && (
        <a
          class="id"
          href={href(`requests?error_code=${encodeURIComponent(error_code)}`)}
          title={`${error ?? error_code}: show all that ended so`}
        >
          {error_code}
        </a>
      ),
  },
];

/** The columns where no token is asked for, so that none can be named. */
const WITHOUT_TOKENS = COLUMNS.filter(({ key }) => key !== 'token');
