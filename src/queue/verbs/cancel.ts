import { type FailureCode, isSettled, type JobView, type RevokeReason } from '../../protocol/index.ts';
import { relayName } from '../../relay/calls.ts';
import { endJob } from '../attempts/end.ts';
import { revoke } from '../attempts/revoke.ts';
import { attemptErrors, viewOf } from '../attempts/view.ts';
import { maySee, type Viewer } from '../rpc.ts';
import { streamIdOf } from '../state/fences.ts';
import type { TransientJob } from '../state/memory-jobs.ts';
import type { Core } from '../state/state.ts';
import { findJob, type JobRow } from '../store/jobs-table.ts';

/** Ends a job at its caller's wish. A settled job stays as it is; null: there is no such job, or none to this viewer. */
export function cancel(
  core: Core,
  jobId: string,
  reason: 'cancelled' | 'caller_gone',
  viewer: Viewer,
): JobView | { id: string; state: 'cancelled' } | null {
  if (cancelTransient(core, jobId, reason, viewer)) return { id: jobId, state: 'cancelled' };
  const row = findJob(core.sql, jobId);
  if (!row || !maySee(viewer, row.tenant)) return null;
  if (!isSettled(row.state)) endUnfinished(core, row, 'cancelled', reason, 'cancelled by the caller');
  return viewOf(core, findJob(core.sql, jobId) ?? row);
}

/** `pending` or `leased` → `cancelled` or `expired`; whoever runs it is told to stop. */
export function endUnfinished(
  core: Core,
  row: JobRow,
  state: 'cancelled' | 'expired',
  reason: RevokeReason,
  message: string,
): void {
  const code: FailureCode = state === 'expired' ? 'deadline' : 'cancelled';
  const { attempts } = row;
  const worker_id = row.state === 'leased' ? row.worker_id : null;
  revoke(core, worker_id, row.id, reason);
  core.fleet.freeSlot(worker_id, row.id, row.fence_token);
  const error = { message, code, retryable: false };
  const settlement = { state, worker_id, attempts, attempt_errors: attemptErrors(row), result: null, error };
  endJob(core, row, settlement);
}

function breakAnswer(core: Core, job: TransientJob): void {
  const relay = relayName(core.settings.queue_id, job.worker_id ?? '');
  const reason = { message: 'the request was cancelled', code: 'cancelled', retryable: false };
  core.breakStream(relay, streamIdOf(job.fence_token), reason);
}

function cancelTransient(
  core: Core,
  jobId: string,
  reason: 'cancelled' | 'caller_gone',
  viewer: Viewer,
): boolean {
  const job = core.transients.get(jobId);
  if (!job || !maySee(viewer, job.call.tenant)) return false;
  core.transients.remove(job);
  core.callLedgers.record(job, 'cancelled', reason);
  job.answer?.({
    kind: 'refused',
    reason: 'cancelled',
    message: 'cancelled by the caller',
    retry_after_seconds: 0,
  });
  revoke(core, job.worker_id, job.id, reason);
  // Not by its caller, then, who still waits for an answer that a relay carries.
  if (reason === 'cancelled' && job.state === 'leased' && !job.answer) breakAnswer(core, job);
  core.fleet.freeSlot(job.worker_id, job.id, job.fence_token);
  return true;
}
