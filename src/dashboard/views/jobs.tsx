import type { ComponentChildren } from 'preact';
import { now } from '../clock.ts';
import { Problem } from '../controls/action.tsx';
import { Age } from '../controls/age.tsx';
import { JobMark } from '../controls/state.tsx';
import { type Column, Table } from '../controls/table.tsx';
import * as format from '../format.ts';
import { between, isSettled, type JobSummary, ms } from '../jobs/job.ts';
import { useJobList } from '../jobs/job-list.ts';
import { fleet } from '../live.ts';
import { filter, href, query } from '../router.ts';

/** Filters by name in the address, and as the API has them. */
export const FILTERS = { id: 'id_prefix', state: 'state', config_id: 'config_id', worker_id: 'worker_id' };
const MORE_FILTERS = { error_code: 'error_code', tenant: 'tenant', job_type: 'job_type' };
const ALL_FILTERS: Record<string, string> = { ...FILTERS, ...MORE_FILTERS };

const STATES = ['pending', 'leased', 'succeeded', 'failed', 'cancelled', 'expired'];
const WORDS: Record<string, string> = { pending: 'waiting', leased: 'running' };
/** How far back, by its name in the address. */
const RANGES: Record<string, number> = { '1h': 3_600_000, '24h': 86_400_000 };

const ROW_PX = 32;

/** The stored jobs, newest first. */
export function JobsView() {
  const params = query.value;
  const asked = apiQuery(params);
  const { jobs, news, isLoading, hasMore, problem, showNews, loadMore } = useJobList(asked);
  return (
    <section class="view" aria-labelledby="jobs-title">
      <h1 id="jobs-title">Jobs</h1>
      <Filters params={params} />
      <Problem text={problem} />
      {news > 0 && (
        <button type="button" class="news" onClick={showNews}>
          {format.count(news)} new
        </button>
      )}
      {jobs.length > 0 && (
        <Table
          label="Jobs, newest first"
          columns={COLUMNS}
          rows={jobs}
          rowHeight={ROW_PX}
          idOf={({ id }) => id}
          pathOf={({ id }) => `jobs/${encodeURIComponent(id)}`}
        />
      )}
      {jobs.length === 0 && !isLoading && !problem && <Nothing params={params} />}
      <p class="list-end">
        {hasMore ? (
          <button type="button" onClick={loadMore} disabled={isLoading}>
            {isLoading ? 'Loading …' : `Older ones than these ${format.count(jobs.length)}`}
          </button>
        ) : (
          jobs.length > 0 && <span class="dim">{format.plural(jobs.length, 'job')}, and no more.</span>
        )}
      </p>
    </section>
  );
}

/** What the API is asked, without what counts from now on. */
function apiQuery(params: URLSearchParams): string {
  const asked = new URLSearchParams();
  for (const [name, parameter] of Object.entries(ALL_FILTERS)) {
    const value = params.get(name);
    if (value) asked.set(parameter, value);
  }
  const range = RANGES[params.get('range') ?? ''];
  if (range) asked.set('range_ms', String(range));
  return asked.toString();
}

function Filters({ params }: { params: URLSearchParams }) {
  const pools = (fleet.value?.pools ?? []).map(({ config_id }) => config_id);
  const others = Object.keys(MORE_FILTERS).filter((name) => params.has(name));
  const set = (name: string) => (event: Event) =>
    filter({ [name]: (event.currentTarget as HTMLInputElement).value || null });
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <Field label="Id begins with">
        <input type="search" spellcheck={false} value={params.get('id') ?? ''} onChange={set('id')} />
      </Field>
      <Field label="State">
        <Choice value={params.get('state')} options={STATES} onChange={set('state')} />
      </Field>
      <Field label="Pool">
        <Choice value={params.get('config_id')} options={pools} onChange={set('config_id')} />
      </Field>
      <Field label="Worker">
        <input
          type="search"
          spellcheck={false}
          value={params.get('worker_id') ?? ''}
          onChange={set('worker_id')}
        />
      </Field>
      <Field label="Submitted">
        <select value={params.get('range') ?? ''} onChange={set('range')}>
          <option value="">any time</option>
          <option value="1h">in the last hour</option>
          <option value="24h">in the last 24 hours</option>
        </select>
      </Field>
      {others.map((name) => (
        <button key={name} type="button" class="chip" onClick={() => filter({ [name]: null })}>
          {name.replace('_', ' ')}: {params.get(name)} <span aria-hidden="true">×</span>
          <span class="unseen">, remove this filter</span>
        </button>
      ))}
    </form>
  );
}

function Field({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: what it labels is handed in.
    <label>
      <span>{label}</span>
      {children}
    </label>
  );
}

interface ChoiceProps {
  value: string | null;
  options: readonly string[];
  onChange(event: Event): void;
}

function Choice({ value, options, onChange }: ChoiceProps) {
  const all = value && !options.includes(value) ? [...options, value] : options;
  return (
    <select value={value ?? ''} onChange={onChange}>
      <option value="">any</option>
      {all.map((option) => (
        <option key={option} value={option}>
          {WORDS[option] ?? option}
        </option>
      ))}
    </select>
  );
}

/** Says which filter leaves nothing, and takes it away. */
function Nothing({ params }: { params: URLSearchParams }) {
  const names = [...Object.keys(ALL_FILTERS), 'range'].filter((name) => params.has(name));
  if (names.length === 0) {
    return (
      <p class="notice">
        No job is stored. <a href={href('try')}>Try it</a>, or submit one with{' '}
        <code>npx worker-vllm submit "Hello"</code>. Requests to /v1/… are answered on their connection and
        not listed.
      </p>
    );
  }
  const clear = () => filter(Object.fromEntries(names.map((name) => [name, null])));
  const said = names.map((name) => `${name.replace('_', ' ')} ${params.get(name)}`).join(', ');
  return (
    <p class="notice">
      No job fits: {said}.{' '}
      <button type="button" onClick={clear}>
        Show all
      </button>
    </p>
  );
}

function Duration({ value }: { value: number | null }) {
  return <>{format.duration(value)}</>;
}

/** How long it waited for its newest attempt; of one that waits still, so far. */
function Waited({ job }: { job: JobSummary }) {
  if (job.state === 'pending') return <Age at={ms(job.created_at)} />;
  return <Duration value={between(job.created_at, job.leased_at ?? job.settled_at)} />;
}

function Ran({ job }: { job: JobSummary }) {
  if (job.leased_at === null || job.state === 'pending') return <>{format.UNKNOWN}</>;
  if (isSettled(job.state)) return <Duration value={between(job.leased_at, job.settled_at)} />;
  return <>{format.age(now.value - Date.parse(job.leased_at))}</>;
}

const COLUMNS: Column<JobSummary>[] = [
  { key: 'state', head: 'State', width: 110, narrow: 92, cell: ({ state }) => <JobMark state={state} /> },
  {
    key: 'id',
    head: 'Id',
    width: 130,
    narrow: 98,
    cell: ({ id }) => (
      <a class="id" href={href(`jobs/${encodeURIComponent(id)}`)} title={id}>
        {format.shortId(id)}
      </a>
    ),
  },
  {
    key: 'pool',
    head: 'Pool',
    width: 180,
    narrow: 84,
    cell: ({ config_id }) => <span title={config_id}>{config_id}</span>,
  },
  {
    key: 'tenant',
    head: 'Token',
    title: 'Name of the token that submitted it, or its tenant',
    width: 110,
    drop: 3,
    cell: ({ tenant }) => <span title={tenant ?? undefined}>{tenant ?? format.UNKNOWN}</span>,
  },
  {
    key: 'created',
    head: 'Age',
    width: 84,
    narrow: 62,
    isNumber: true,
    cell: (job) => <Age at={ms(job.created_at)} />,
  },
  { key: 'waited', head: 'Waited', width: 80, isNumber: true, drop: 4, cell: (job) => <Waited job={job} /> },
  {
    key: 'first',
    head: 'First token',
    title: 'From its submission to its first token',
    width: 90,
    isNumber: true,
    drop: 3,
    cell: (job) => <Duration value={between(job.created_at, job.first_token_at)} />,
  },
  { key: 'ran', head: 'Ran', width: 80, isNumber: true, drop: 5, cell: (job) => <Ran job={job} /> },
  {
    key: 'attempts',
    head: 'Attempts',
    title: 'Attempts made so far, of those it may have',
    width: 75,
    isNumber: true,
    drop: 4,
    cell: ({ attempts, max_attempts }) => `${attempts}/${max_attempts}`,
  },
  {
    key: 'worker',
    head: 'Worker',
    width: 150,
    drop: 4,
    cell: ({ worker_id }) =>
      worker_id === null ? (
        format.UNKNOWN
      ) : (
        <a href={href(`workers/${encodeURIComponent(worker_id)}`)} title={worker_id}>
          {worker_id}
        </a>
      ),
  },
  {
    key: 'error',
    head: 'Error',
    drop: 5,
    cell: ({ error }) =>
      error && (
        <a
          class="id"
          href={href(`jobs?state=failed&error_code=${encodeURIComponent(error.code)}`)}
          title={`${error.message}: show all that ended so`}
        >
          {error.code}
        </a>
      ),
  },
];
