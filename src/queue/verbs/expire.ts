import { failAttempt, returnUncharged } from '../attempts/retry.ts';
import { revoke } from '../attempts/revoke.ts';
import { closeSilent, leaseRanOut, nextSilence } from '../attempts/silence.ts';
import { SECOND_LOOK_MS } from '../attempts/standstill.ts';
import { type Core, due } from '../state/state.ts';
import { type Deletion, takeDeletions } from '../store/blob-table.ts';
import {
  deadlinesDue,
  type JobRow,
  leasesDue,
  nextDue,
  ORPHANED,
  OVERDUE,
  postponeLease,
  wakeDelayed,
} from '../store/jobs-table.ts';
import { endUnfinished } from './cancel.ts';
import { sweep } from './retention.ts';

/**
 * The alarm: leases that ran out, deadlines that passed, retry delays that are over, workers that are
 * silent, jobs to be forgotten and what of the bucket goes with them.
 * Runs at least once and may run late or twice: it looks at what is due now, whatever it was set for.
 */
export function expire(core: Core): Deletion {
  const now = core.now();
  closeSilent(core);
  for (const configId of wakeDelayed(core.sql, now)) core.openings.config(configId);
  for (const row of deadlinesDue(core.sql, now)) {
    endUnfinished(core, row, 'expired', 'deadline', 'the deadline passed before the job was done');
  }
  for (const row of leasesDue(core.sql, now)) {
    if (row.lease_orphaned & OVERDUE) expireLease(core, row);
    // A renewal may lie in its socket: the queue may have stood still until now.
    else postponeLease(core.sql, row, now + SECOND_LOOK_MS, true);
  }
  core.alarm.clear();
  for (const next of [nextDue(core.sql), nextSilence(core)]) if (next !== null) due(core, next);
  sweep(core);
  return takeDeletions(core);
}

/** Charged to the job, unless the queue itself was gone: then its worker may well have the job still. */
function expireLease(core: Core, row: JobRow): void {
  const { id: job_id, worker_id, fence_token } = row;
  core.log('warn', 'lease expired', { job_id, worker_id, fence_token });
  if (row.lease_orphaned & ORPHANED.byQueue) {
    returnUncharged(core, row, 0, 'returned', 'the queue was down and the worker did not come back in time');
    return;
  }
  revoke(core, worker_id, job_id, 'lease_lost');
  failAttempt(core, row, {
    message: 'the lease ran out: the worker was gone or did not renew it',
    code: 'lease_expired',
    retryable: true,
  });
  const holder = worker_id === null ? null : core.fleet.byId(worker_id);
  if (holder) leaseRanOut(core, holder);
}
