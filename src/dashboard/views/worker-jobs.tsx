import type { JobView } from '../../protocol/jobs.ts';
import { now } from '../clock.ts';
import { Age } from '../controls/age.tsx';
import type { Column } from '../controls/column.ts';
import { JobMark } from '../controls/state.tsx';
import { Table } from '../controls/table.tsx';
import * as format from '../format.ts';
import { attemptsOf } from '../jobs/job.ts';
import { usePolled } from '../polled.ts';
import { href } from '../router.ts';

type Job = Omit<JobView, 'fence_token' | 'result' | 'attempt_errors'>;

const SHOWN = 20;
const REFRESH_MS = 5000;
const ROW_HEIGHT = 32;

const COLUMNS: Column<Job>[] = [
  { key: 'state', head: 'State', width: 120, cell: ({ state }) => <JobMark state={state} /> },
  {
    key: 'id',
    head: 'Job',
    width: 190,
    cell: ({ id }) => (
      <a class="id" href={href(`jobs/${encodeURIComponent(id)}`)} title={id}>
        {format.shortId(id)}
      </a>
    ),
  },
  { key: 'type', head: 'Type', drop: 4, cell: ({ job_type }) => job_type },
  {
    key: 'created',
    head: 'Created',
    width: 100,
    isNumber: true,
    cell: ({ created_at }) => <Age at={ms(created_at)} />,
  },
  {
    key: 'waited',
    head: 'Waited',
    width: 100,
    isNumber: true,
    drop: 5,
    cell: ({ created_at, leased_at }) =>
      format.duration(leased_at === null ? null : ms(leased_at)! - ms(created_at)!),
  },
  { key: 'ran', head: 'Ran', width: 100, isNumber: true, drop: 5, cell: (job) => <Ran job={job} /> },
  {
    key: 'attempts',
    head: 'Attempts',
    width: 90,
    isNumber: true,
    drop: 4,
    cell: attemptsOf,
  },
  { key: 'error', head: 'Error', width: 200, drop: 4, cell: ({ error }) => error?.code ?? '' },
];

/** Its newest stored jobs. */
export function WorkerJobs({ workerId }: { workerId: string }) {
  const worker = encodeURIComponent(workerId);
  const path = `api/jobs?worker_id=${worker}&limit=${SHOWN}`;
  const { data, failure } = usePolled<{ jobs: Job[]; next: string | null }>(path, REFRESH_MS).value;
  return (
    <section aria-labelledby="jobs-title">
      <div class="tools">
        <h2 id="jobs-title">Stored jobs</h2>
        {data?.next && (
          <a class="button" href={href(`jobs?worker_id=${worker}`)}>
            All of them
          </a>
        )}
      </div>
      {data && data.jobs.length > 0 ? (
        <Table
          label="Stored jobs of this worker"
          columns={COLUMNS}
          rows={data.jobs}
          rowHeight={ROW_HEIGHT}
          idOf={({ id }) => id}
          pathOf={({ id }) => `jobs/${encodeURIComponent(id)}`}
        />
      ) : (
        <p class="notice">
          {failure?.message ??
            (data
              ? 'No stored job went to it. Requests of callers on a connection are not stored.'
              : 'Asking …')}
        </p>
      )}
    </section>
  );
}

/** How long its newest attempt took, or takes. */
function Ran({ job: { leased_at, settled_at, state } }: { job: Job }) {
  if (leased_at === null || state === 'pending') return <>{format.UNKNOWN}</>;
  return <>{format.duration((settled_at === null ? now.value : ms(settled_at)!) - ms(leased_at)!)}</>;
}

function ms(iso: string | null): number | null {
  return iso === null ? null : Date.parse(iso);
}
