import type { ListedJob } from '../../protocol/job-answers.ts';
import { Table } from '../controls/table.tsx';
import { JOB_COLUMNS } from '../jobs/job-columns.tsx';
import { ownFailure, usePolled } from '../polled.ts';
import { href } from '../router.ts';

const SHOWN = 20;
const REFRESH_MS = 5000;
const ROW_HEIGHT = 32;

/** The columns without pool and worker, since all jobs are one worker's. */
const COLUMNS = JOB_COLUMNS.filter(({ key }) => key !== 'pool' && key !== 'worker');

/** Shows a worker's newest stored jobs. */
export function WorkerJobs({ workerId }: { workerId: string }) {
  const worker = encodeURIComponent(workerId);
  const path = `api/jobs?worker_id=${worker}&limit=${SHOWN}`;
  const { data, failure } = usePolled<{ jobs: ListedJob[]; next: string | null }>(path, REFRESH_MS).value;
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
          {ownFailure(failure) ??
            (data
              ? 'No stored job went to it. Requests of callers on a connection are not stored.'
              : 'Asking …')}
        </p>
      )}
    </section>
  );
}
