import type { JobView } from '../../protocol/jobs.ts';
import { ask } from '../api.ts';
import { Problem, useAction } from '../controls/action.tsx';
import { go } from '../router.ts';
import { maySubmit } from '../session.ts';
import { isSettled } from './job.ts';
import { submitCopy } from './submit-copy.ts';

interface Props {
  job: Omit<JobView, 'result'>;
  /** It is another than before. */
  onChange(): void;
  /** It is to be run again with another payload. */
  onEdit(): void;
}

/** Cancels a job that is not over, runs again one that is; any can be edited and run beside it. */
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
