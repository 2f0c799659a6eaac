import type { JobView } from '../../protocol/jobs.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { go } from '../router.ts';
import { maySubmit } from '../session.ts';
import { isSettled } from './job.ts';
import { submitCopy } from './submit-copy.ts';

interface Props {
  job: Omit<JobView, 'result'>;
  /** Called when the job has changed. */
  onChange(): void;
  /** Called when the job is to be run again with another payload. */
  onEdit(): void;
}

/**
 * Shows buttons that cancel a job which has not ended, or run again one that has; any job can be edited and run as
 * another one.
 */
export function JobActions({ job, onChange, onEdit }: Props) {
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
    const id = await submitCopy(job, await ask<unknown>(`${path}/payload`));
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
      <button type="button" onClick={onEdit}>
        Edit and run again
      </button>
      <Problem text={problem} />
    </div>
  );
}
