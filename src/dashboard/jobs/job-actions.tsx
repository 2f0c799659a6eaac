import type { JobView } from '../../protocol/jobs.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { go } from '../router.ts';
import { maySubmit } from '../session.ts';
import { isSettled } from './job.ts';

type Job = Omit<JobView, 'result'>;

/** Cancels a job that is not over, runs again one that is. @param onChange it is another than before */
export function JobActions({ job, onChange }: { job: Job; onChange(): void }) {
  const { act, isActing, problem } = useAction();
  if (!maySubmit.value) return null;
  const path = `api/jobs/${encodeURIComponent(job.id)}`;
  const cancel = async () => {
    await ask(path, { method: 'DELETE' });
    onChange();
  };
  const runAgain = async () => {
    if (job.state === 'failed' || job.state === 'expired') {
      await ask(`${path}/retry`, { method: 'POST' });
      return onChange();
    }
    const { id } = await submitCopy(job, path);
    go(`jobs/${encodeURIComponent(id)}`);
  };
  return (
    <div class="actions">
      {isSettled(job.state) ? (
        <button type="button" onClick={() => act(runAgain)} disabled={isActing}>
          Run again
        </button>
      ) : (
        <button type="button" class="danger" onClick={() => act(cancel)} disabled={isActing}>
          Cancel the job
        </button>
      )}
      <Problem text={problem} />
    </div>
  );
}

/** A job that did not fail stays as it is; another with the same payload is submitted. */
async function submitCopy(job: Job, path: string): Promise<{ id: string }> {
  const payload = await ask<unknown>(`${path}/payload`);
  const { job_type, config_id, priority, max_attempts, stream } = job;
  const copy = { job_type, config_id, priority, max_attempts, payload, ...(stream && { stream }) };
  return await ask<{ id: string }>('api/jobs', { method: 'POST', body: JSON.stringify(copy) });
}
