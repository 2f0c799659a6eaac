import { isSettled } from '../../protocol/index.ts';
import { breakUnknown, CANCELLED, endUnfinished } from '../attempts/end.ts';
import { revoke } from '../attempts/revoke.ts';
import { maySee, type ToldJob, type Viewer } from '../rpc.ts';
import { type Core, findJob } from '../state/state.ts';
import { viewOf } from '../store/job-view.ts';

/** Ends a job at its caller's wish. A settled job stays as it is; null: there is no such job, or none to this viewer. */
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

/** A request from before a restart of the queue, which a worker still runs: only its worker knows of it. */
function revokeUnknown(core: Core, jobId: string): void {
  for (const { session, running, heldSince } of core.workers.all()) {
    const fence = running.get(jobId);
    if (fence === undefined) continue;
    revoke(core, session.worker_id, jobId, 'caller_gone');
    breakUnknown(core, session.worker_id, fence);
    const since = heldSince.get(fence);
    core.workers.freeSlot(session.worker_id, jobId, fence);
    // Whom it was for its worker tells with what it used.
    if (since !== undefined) heldSince.set(fence, since);
    core.limits.endResumed(jobId);
  }
}
