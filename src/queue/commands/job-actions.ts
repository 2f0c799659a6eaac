import { type Failure, isSettled } from '../../protocol/index.ts';
import { breakUnknown, CANCELLED, endUnfinished, revoke } from '../attempts/end.ts';
import { emit } from '../events/projection.ts';
import {
  type JobsAction,
  maySee,
  type OutputCursor,
  type RetryAnswer,
  type ToldJob,
  type Viewer,
} from '../rpc.ts';
import { type Core, findJob } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';
import { moveOutputCursor } from '../store/jobs-table.ts';
import { pendingOfPool } from '../store/pending-table.ts';

/**
 * Ends a job at its caller's wish. A settled job stays as it is. Returns null if there is no such job, or none for this
 * viewer.
 */
export function cancel(
  core: Core,
  jobId: string,
  reason: 'cancelled' | 'caller_gone',
  viewer: Viewer,
): ToldJob | { id: string; state: 'cancelled' } | null {
  if (reason === 'caller_gone') core.requests.callerGone(jobId);
  const job = findJob(core, jobId);
  if (job === null && reason === 'caller_gone') revokeUnknown(core, jobId);
  if (job === null || !maySee(viewer, job.tenant)) return null;
  if (!isSettled(job.state)) endUnfinished(core, job, 'cancelled', reason, CANCELLED);
  if (job.mode === 'waiting') return { id: jobId, state: 'cancelled' };
  return viewOf(core.sql, core.stored.find(jobId) ?? job);
}

/** Revokes a request from before a restart of the queue, which only the worker that still runs it knows. */
function revokeUnknown(core: Core, jobId: string): void {
  for (const { session, running, heldSince } of core.workers.all()) {
    const fence = running.get(jobId);
    if (fence === undefined) continue;
    revoke(core, session.worker_id, jobId, 'caller_gone');
    breakUnknown(core, session.worker_id, fence);
    const since = heldSince.get(fence);
    core.workers.freeSlot(session.worker_id, jobId, fence);
    // The time stays noted: the worker reports whom the request was for together with its usage.
    if (since !== undefined) heldSince.set(fence, since);
    core.admission.earlier.ended(jobId);
  }
}

/**
 * Tries a stored job that failed or expired again, at its caller's wish: under its id, with all its attempts and as
 * much time as it had.
 * @returns null if there is no such job, or none for this viewer
 */
export function retry(core: Core, jobId: string, viewer: Viewer): RetryAnswer | null {
  const job = core.stored.find(jobId);
  if (job === null || !maySee(viewer, job.tenant)) return null;
  if (job.state !== 'failed' && job.state !== 'expired') return { ok: false, state: job.state };
  if (core.stored.isErased(job)) return { ok: false, state: job.state, is_erased: true };
  const { message } = JSON.parse(job.error ?? '{}') as Partial<Failure>;
  emit(core, job, 'retried', `it was ${job.state}: ${message}`);
  return { ok: true, job: viewOf(core.sql, core.stored.retry(job)) };
}

/**
 * Forgets what a settled job was asked and has answered, at its caller's wish, and the words of its failures, which may
 * quote that; its row stays, with its times, its fence, its usage and the codes of its failures. What lies in files is
 * the caller's to remove.
 */
export function eraseContents(core: Core, jobId: string): void {
  const job = core.stored.find(jobId);
  if (job === null || !isSettled(job.state)) return;
  core.stored.eraseContents(job);
  core.projections.erase(job);
}

/**
 * Cancels stored jobs, or has them tried again, all in one commit: the caller keeps them few. A job whose state no
 * longer allows it, that is gone, or that this viewer may not see stays as it is.
 * @returns how many were changed
 */
export function actOnJobs(core: Core, action: JobsAction, ids: readonly string[], viewer: Viewer): number {
  const act = action === 'retry' ? retried : cancelled;
  return ids.filter((id) => act(core, id, viewer)).length;
}

function retried(core: Core, id: string, viewer: Viewer): boolean {
  return retry(core, id, viewer)?.ok === true;
}

function cancelled(core: Core, id: string, viewer: Viewer): boolean {
  const job = core.stored.find(id);
  if (job === null || !maySee(viewer, job.tenant) || isSettled(job.state)) return false;
  endUnfinished(core, job, 'cancelled', 'cancelled', 'it was cancelled with all jobs that matched a filter');
  return true;
}

/** The most jobs that are cancelled in one event, so that other work gets its turn. */
const BITE_JOBS = 500;

/** Cancels pending stored jobs of a pool, if this viewer sees them. @returns how many; 0 when none is left */
export function purge(core: Core, configId: string, viewer: Viewer): number {
  const jobs = pendingOfPool(core.sql, configId, viewer, BITE_JOBS);
  for (const job of jobs) endUnfinished(core, job, 'cancelled', 'cancelled', 'its caller purged the queue');
  return jobs.length;
}

/**
 * Takes some of a job's outputs for a caller, which next time gets those after them.
 * @returns false if another caller took them meanwhile, or there is no such job
 */
export function takeOutput(
  core: Core,
  jobId: string,
  from: OutputCursor,
  to: OutputCursor,
  viewer: Viewer,
): boolean {
  const job = core.stored.find(jobId);
  return job !== null && maySee(viewer, job.tenant) && moveOutputCursor(core.sql, jobId, from, to);
}
