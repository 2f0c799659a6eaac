import type { AuditEntry } from '../../protocol/audit.ts';
import { inWords } from '../../show/format.ts';
import { request } from '../api.ts';
import { ACTION_WORDS, actorInWords, byWhom, changeInWords, targetInWords } from '../audit-words.ts';
import { download, Problem, useAction } from '../controls/action.tsx';
import { apiQuery, type FilterField } from '../controls/filters.tsx';
import { List } from '../controls/list.tsx';
import { AuditMark } from '../controls/marks.tsx';
import { type Listed, withSince } from '../controls/paged-list.ts';
import type { Column } from '../controls/table.tsx';
import { Age, Time } from '../controls/time.tsx';
import { isNarrow } from '../controls/window.ts';
import { href, query } from '../router.ts';
import { isAdmin } from '../session.ts';

const FIELDS: FilterField[] = [
  {
    name: 'action',
    parameter: 'action',
    label: 'Action',
    options: Object.keys(ACTION_WORDS),
    words: ACTION_WORDS,
  },
  { name: 'actor', parameter: 'actor', label: 'Token' },
  { name: 'target', parameter: 'target', label: 'Target' },
];

/** The height of a row, px; a narrow one has what the columns that are left out there say. */
const ROW_PX = { wide: 48, narrow: 96 };

const ENTRIES: Listed<AuditEntry> = {
  path: 'api/audit',
  isOfPeople: true,
  rowsOf: ({ entries }) => entries as AuditEntry[],
  idOf: ({ seq }) => String(seq),
  timeOf: ({ seq }) => seq,
};

/** Shows people's actions, newest first. */
export function AuditView() {
  return (
    <section class="view" aria-labelledby="audit-title">
      <div class="tools">
        <h1 id="audit-title">Audit</h1>
        {isAdmin.value && <Export />}
      </div>
      {isAdmin.value ? (
        <List
          listed={ENTRIES}
          label="What people did, newest first"
          what="action"
          columns={COLUMNS}
          rowHeight={isNarrow.value ? ROW_PX.narrow : ROW_PX.wide}
          fields={FIELDS}
          timeLabel="When"
        >
          Nothing is recorded yet. This list records changes of tokens, pools and the fleet's file, and what
          people do to jobs, batches and files of others.
        </List>
      ) : (
        <p class="notice">Sign in with a token of the scope admin to see what people did.</p>
      )}
    </section>
  );
}

/**
 * Shows the button that saves all entries that pass the filters, even beyond the listed ones, one line of JSON each.
 */
function Export() {
  const { act, isActing, problem } = useAction();
  const save = () =>
    act(async () => {
      const headers = { accept: 'application/x-ndjson' };
      const answer = await request(`api/audit?${withSince(apiQuery(query.value, FIELDS))}`, { headers });
      download('audit.jsonl', await answer.text());
    });
  return (
    <>
      <button type="button" disabled={isActing} onClick={save}>
        Download as JSON lines
      </button>
      <Problem text={problem} />
    </>
  );
}

/** Shows a link to all entries with the same value. */
function Only({ name, value, text = value }: { name: string; value: string; text?: string }) {
  return (
    <a href={href(`audit?${name}=${encodeURIComponent(value)}`)} title={`${text}: show only this`}>
      {text}
    </a>
  );
}

const COLUMNS: Column<AuditEntry>[] = [
  {
    key: 'at',
    head: 'When',
    width: 130,
    narrow: 78,
    cell: ({ at }) => (
      <>
        <Age at={Date.parse(at)} />
        <small class="drop-5">
          <Time at={Date.parse(at)} />
        </small>
      </>
    ),
  },
  {
    key: 'actor',
    head: 'Token',
    title: 'Name of the token that was used',
    width: 160,
    drop: 5,
    cell: (entry) =>
      entry.actor === null ? (
        <span class="dim">{actorInWords(entry)}</span>
      ) : (
        <span title={entry.subject === null ? undefined : `subject ${entry.subject}`}>
          <Only name="actor" value={entry.actor} />
        </span>
      ),
  },
  {
    key: 'action',
    head: 'Action',
    width: 240,
    cell: (entry) => {
      const { action, target, route, queue_id } = entry;
      return (
        <>
          <Only name="action" value={action} text={ACTION_WORDS[action] ?? action} />
          <small title={`${target}: ${route}, through the queue ${queue_id}`}>
            <Only name="target" value={target} text={targetInWords(entry)} />
          </small>
          {isNarrow.value && (
            <>
              <small class="when-narrow">{byWhom(entry)}</small>
              <small class="when-narrow">
                <span class="clamped">{changeInWords(entry)}</span>
              </small>
            </>
          )}
        </>
      );
    },
  },
  {
    key: 'outcome',
    head: 'Outcome',
    width: 130,
    narrow: 84,
    cell: ({ outcome, error }) => (
      <>
        <AuditMark outcome={outcome} />
        {error && <small title={error}>{inWords(error)}</small>}
      </>
    ),
  },
  {
    key: 'change',
    head: 'Change',
    drop: 5,
    cell: (entry) => {
      const words = changeInWords(entry);
      return (
        <span class="clamped" title={words}>
          {words}
        </span>
      );
    },
  },
];
