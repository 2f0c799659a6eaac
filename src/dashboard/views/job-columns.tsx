import type { JobState, ListedJob } from '../../protocol/jobs.ts';
import * as format from '../../show/format.ts';
import { now } from '../clock.ts';
import { JobMark } from '../controls/marks.tsx';
import type { Column } from '../controls/table.tsx';
import { Age } from '../controls/time.tsx';
import { isNarrow } from '../controls/window.ts';
import { WorkerLink } from '../controls/worker-link.tsx';
import { href } from '../router.ts';

function Duration({ value }: { value: number | null }) {
  return <>{format.duration(value)}</>;
}

/** Shows how long a job waited for its newest attempt, or how long it has waited so far. */
function Waited({ job }: { job: ListedJob }) {
  if (job.state === 'pending') return <Age at={ms(job.created_at)} />;
  return <Duration value={between(job.created_at, job.leased_at ?? job.settled_at)} />;
}

function Ran({ job }: { job: ListedJob }) {
  if (job.leased_at === null || job.state === 'pending') return <>{format.UNKNOWN}</>;
  if (isSettled(job.state)) return <Duration value={between(job.leased_at, job.settled_at)} />;
  return <>{format.age(now.value - Date.parse(job.leased_at))}</>;
}

/** Returns the height of a stored job's row, px; in a narrow window its pool stands below its id. */
export function jobRowHeight(): number {
  return isNarrow.value ? 40 : 32;
}

/** The columns of a list of stored jobs, left to right. */
export const JOB_COLUMNS: Column<ListedJob>[] = [
  { key: 'state', head: 'State', width: 110, narrow: 92, cell: ({ state }) => <JobMark state={state} /> },
  {
    key: 'id',
    head: 'Id',
    width: 130,
    narrow: 176,
    cell: ({ id, config_id }) => (
      <>
        <a class="id" href={href(`jobs/${encodeURIComponent(id)}`)} title={id}>
          {format.shortId(id)}
        </a>
        <small class="when-narrow">{config_id}</small>
      </>
    ),
  },
  {
    key: 'pool',
    head: 'Pool',
    width: 180,
    drop: 5,
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
    narrow: 86,
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
    cell: attemptsOf,
  },
  {
    key: 'worker',
    head: 'Worker',
    width: 190,
    drop: 4,
    cell: ({ worker_id }) => <WorkerLink id={worker_id} />,
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

export function ms(iso: string | null): number | null {
  return iso === null ? null : Date.parse(iso);
}

/** Returns the time from one moment to another, ms, or null if either is missing. */
export function between(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from));
}

export function isSettled(state: JobState): boolean {
  return state !== 'pending' && state !== 'leased';
}

/** Returns the number of attempts so far, of those that the job may have: `1 of 3`. */
export function attemptsOf({ attempts, max_attempts }: Pick<ListedJob, 'attempts' | 'max_attempts'>): string {
  return `${attempts} of ${max_attempts}`;
}
