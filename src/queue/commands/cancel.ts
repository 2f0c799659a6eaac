import { isSettled } from '../../protocol/index.ts';
import { breakUnknown, CANCELLED, endUnfinished } from '../attempts/end.ts';
import { revoke } from '../attempts/revoke.ts';
import { maySee, type ToldJob, type Viewer } from '../rpc.ts';
import { type Core, findJob } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';

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
    core.limits.endResumed(jobId);
  }
}
