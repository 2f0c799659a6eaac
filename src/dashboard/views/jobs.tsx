import { useEffect, useRef, useState } from 'preact/hooks';
import type { ListedJob } from '../../protocol/jobs.ts';
import * as format from '../../show/format.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { apiQuery, chosen, type FilterField } from '../controls/filters.tsx';
import { List } from '../controls/list.tsx';
import { type Listed, withSince } from '../controls/paged-list.ts';
import { fleet } from '../live.ts';
import { href, query } from '../router.ts';
import { maySubmit } from '../session.ts';
import { JOB_COLUMNS, jobRowHeight } from './job-columns.tsx';

const STATES = ['pending', 'leased', 'succeeded', 'failed', 'cancelled', 'expired'];
const WORDS: Record<string, string> = { pending: 'waiting', leased: 'running' };

const FIELDS: FilterField[] = [
  { name: 'id', parameter: 'id_prefix', label: 'Id begins with' },
  { name: 'state', parameter: 'state', label: 'State', options: STATES, words: WORDS },
  { name: 'config_id', parameter: 'config_id', label: 'Pool' },
  { name: 'worker_id', parameter: 'worker_id', label: 'Worker' },
];
const MORE: FilterField[] = [
  { name: 'error_code', parameter: 'error_code', label: 'Error code' },
  { name: 'tenant', parameter: 'tenant', label: 'Token or tenant' },
  { name: 'job_type', parameter: 'job_type', label: 'Type' },
];

const JOBS: Listed<ListedJob> = {
  path: 'api/jobs',
  rowsOf: ({ jobs }) => jobs as ListedJob[],
  idOf: ({ id }) => id,
  timeOf: ({ created_at }) => Date.parse(created_at),
};

/** Shows the stored jobs, newest first. */
export function JobsView() {
  const pools = (fleet.value?.pools ?? []).map(({ config_id }) => config_id);
  const fields = FIELDS.map((field) => (field.name === 'config_id' ? { ...field, options: pools } : field));
  return (
    <section class="view" aria-labelledby="jobs-title">
      <h1 id="jobs-title">Jobs</h1>
      <List
        listed={JOBS}
        label={query.value.has('id') ? 'Jobs, by their ids' : 'Jobs, newest first'}
        what="job"
        columns={JOB_COLUMNS}
        rowHeight={jobRowHeight()}
        pathOf={({ id }) => `jobs/${encodeURIComponent(id)}`}
        fields={fields}
        more={MORE}
        timeLabel="Submitted"
        notesOf={() => <MatchingActions fields={[...FIELDS, ...MORE]} />}
      >
        No job is stored. <a href={href('try')}>Try it</a>, or submit one with{' '}
        <code>npx worker-vllm submit "Hello"</code>. Requests to <code>/v1/…</code> are no jobs, since they
        are answered on their connection: <a href={href('requests')}>Requests</a> lists them.
      </List>
    </section>
  );
}

type Action = 'retry' | 'cancel';

const ACTIONS: Record<Action, { name: string; states: string[]; would: string; done: string }> = {
  retry: {
    name: 'Run again',
    states: ['failed', 'expired'],
    would: 'failed or expired, and would run again under the same ids',
    done: 'run again',
  },
  cancel: {
    name: 'Cancel',
    states: ['pending', 'leased'],
    would: 'wait or run, and would be cancelled',
    done: 'were cancelled',
  },
};

/** One answer of `POST /api/jobs/retry` and `…/cancel`. */
interface Acted {
  jobs: number;
  ids: string[];
  next: string | null;
}

/** Shows the actions on all jobs that match the list's filters; nothing if no filter is active. */
function MatchingActions({ fields }: { fields: readonly FilterField[] }) {
  const [asked, setAsked] = useState<{ action: Action; query: string; words: string } | null>(null);
  const params = query.value;
  const filters = chosen(params, fields);
  if (!maySubmit.value || filters.length === 0) return null;
  const state = params.get('state');
  const open = (action: Action) => {
    const query = new URLSearchParams(withSince(apiQuery(params, fields)));
    // The end of the span keeps jobs from joining between the dry run and the action.
    if (!query.has('until')) query.set('until', new Date().toISOString());
    setAsked({ action, query: query.toString(), words: filters.map(({ text }) => text).join(', ') });
  };
  return (
    <div class="actions">
      {(Object.keys(ACTIONS) as Action[])
        .filter((action) => !state || ACTIONS[action].states.includes(state))
        .map((action) => (
          <button key={action} type="button" aria-haspopup="dialog" onClick={() => open(action)}>
            {ACTIONS[action].name} all that match …
          </button>
        ))}
      {asked && <MatchingDialog {...asked} onClose={() => setAsked(null)} />}
    </div>
  );
}

interface DialogProps {
  action: Action;
  query: string;
  /** The filter in words. */
  words: string;
  onClose(): void;
}

/** Shows how many jobs match and which, then acts on them. */
function MatchingDialog({ action, query, words, onClose }: DialogProps) {
  const { name, would, done } = ACTIONS[action];
  const dialog = useRef<HTMLDialogElement>(null);
  const said = useRef<HTMLParagraphElement>(null);
  const [found, setFound] = useState<Acted | null>(null);
  const [changed, setChanged] = useState<Acted | null>(null);
  const { act, isActing, problem } = useAction();
  const closed = useRef(new AbortController());
  useEffect(() => {
    dialog.current?.showModal();
    void act(() => all(action, `${query}&dry_run=true`, closed.current.signal, setFound));
    return () => closed.current.abort();
  }, []);
  // The pressed button is removed, and the focus with it, so the text takes the focus.
  useEffect(() => said.current?.focus(), [changed === null]);
  const shown = changed ?? found;
  return (
    <dialog ref={dialog} class="change" aria-labelledby="matching-title" onClose={onClose}>
      <h2 id="matching-title">{name} all that match</h2>
      <div class="confirm">
        <p class="dim">{words}</p>
        <p ref={said} tabIndex={-1} role="status">
          {shown === null
            ? 'Counting …'
            : `${format.plural(shown.jobs, 'job')} ${changed ? done : would}${isActing ? ', so far …' : '.'}`}
        </p>
        {shown !== null && shown.ids.length > 0 && (
          <p class="id">
            {shown.ids.join(', ')}
            {shown.jobs > shown.ids.length && ` and ${format.count(shown.jobs - shown.ids.length)} more`}
          </p>
        )}
        <Problem text={problem} />
        {found !== null && found.jobs > 0 && changed === null && !isActing && (
          <button
            type="button"
            class={action === 'cancel' ? 'danger' : 'primary'}
            onClick={() => act(() => all(action, query, closed.current.signal, setChanged))}
          >
            {name} {format.plural(found.jobs, 'job')} now
          </button>
        )}
      </div>
      <form method="dialog">
        <button type="submit">{changed ? 'Close' : 'Change nothing'}</button>
      </form>
    </dialog>
  );
}

/** Acts on all jobs, with a request for each part, and reports the sum after each. @throws ApiFailure */
async function all(action: Action, query: string, signal: AbortSignal, tell: (sum: Acted) => void) {
  let jobs = 0;
  let ids: string[] = [];
  let cursor = '';
  for (;;) {
    const part = await ask<Acted>(`api/jobs/${action}?${query}${cursor}`, { method: 'POST', signal });
    jobs += part.jobs;
    if (ids.length === 0) ids = part.ids;
    tell({ jobs, ids, next: part.next });
    if (part.next === null) return;
    cursor = `&cursor=${encodeURIComponent(part.next)}`;
  }
}
