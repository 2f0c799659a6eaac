import { type Waiting, waitsFor } from '../../protocol/index.ts';
import { maySee, type Viewer, type WaitingJobFacts } from '../rpc.ts';
import { isBatchWork } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { isLeaving, mayRun } from '../state/worker.ts';
import { attemptErrors } from '../store/job-view.ts';
import type { StoredJob } from '../store/jobs-table.ts';

/** The most characters that are shown of the last attempt's error. */
const MOST_OF_ERROR = 200;

/**
 * Returns what a stored job waits for, as far as the queue alone knows; `own` is null where the job waits for its pool.
 * Null if there is no such job, or it does not wait.
 */
export function waitingJob(core: Core, jobId: string, viewer: Viewer): WaitingJobFacts | null {
  const job = core.stored.find(jobId);
  if (job === null || job.state !== 'pending' || !maySee(viewer, job.tenant)) return null;
  const { config_id, model } = job;
  return { config_id, model, is_batch: isBatchWork(job), own: ownWait(core, job) };
}

function ownWait(core: Core, job: StoredJob): Waiting | null {
  if (job.is_held === 1) return core.admission.waitOf(job);
  if (job.run_after !== null) {
    const last = attemptErrors(job).at(-1)?.message ?? 'it was given back';
    const clause = `its attempt ${job.attempts} of ${job.max_attempts} failed, and the next one comes later: ${firstLine(last)}`;
    return waitsFor('retry', clause, { until: job.run_after });
  }
  const able = core.workers.all().filter((worker) => !isLeaving(worker) && mayRun(worker, job.model));
  const workers = able.filter(({ session }) => session.config_id === job.config_id);
  if (workers.length === 0 || !workers.every(({ declined }) => declined.has(job.id))) return null;
  return waitsFor('deadline', 'no worker can meet its deadline at its present load', {
    until: job.deadline_at,
    advice: 'Give it a later deadline, or the pool another worker.',
  });
}

function firstLine(text: string): string {
  const line = text.trim().split('\n', 1)[0]!.replace(/\.$/, '');
  return line.length > MOST_OF_ERROR ? `${line.slice(0, MOST_OF_ERROR)}…` : line;
}
