import { relayName } from '../../relay/calls.ts';
import { tellDisconnected } from '../events/fleet-events.ts';
import { record } from '../events/ledger.ts';
import { streamIdOf } from '../state/fences.ts';
import type { TransientJob } from '../state/memory-jobs.ts';
import { type Core, due } from '../state/state.ts';
import { leasedByWorker, leasedJobs, ORPHANED, OVERDUE, orphanLease } from '../store/jobs-table.ts';
import type { Connection } from '../store/ports.ts';
import { endSession } from '../store/session-table.ts';

/**
 * A control socket closed. Its worker may only have lost the network: its leases last until the reconnect
 * grace is over.
 */
export function disconnect(core: Core, connection: Connection, reason = 'the connection closed'): void {
  const worker = core.fleet.remove(connection);
  // An older connection that a newer one replaced: nothing is lost with it.
  if (!worker || core.fleet.byId(worker.session.worker_id)) return;
  const now = core.now();
  const graceEnds = now + core.settings.reconnect_grace_seconds * 1000;
  for (const row of leasedByWorker(core.sql, worker.session.worker_id)) {
    orphanLease(core.sql, row.id, row.fence_token, graceEnds, ORPHANED.byWorker);
    due(core, graceEnds);
    record(core, row, 'disconnected');
  }
  core.fleet.expect(worker, graceEnds);
  endSession(core.sql, worker.session.worker_id, now);
  tellDisconnected(core, worker, reason);
  for (const job of core.transients.all()) {
    if (job.worker_id === worker.session.worker_id) job.orphaned_at = now;
  }
  core.log('info', 'worker disconnected', { worker_id: worker.session.worker_id });
}

/**
 * At the start of the object: leases whose holder has no socket here and whose close nobody counted (the
 * queue itself was down) get one grace to come back.
 */
export function orphanAfterRestart(core: Core): void {
  const graceEnds = core.now() + core.settings.reconnect_grace_seconds * 1000;
  for (const row of leasedJobs(core.sql)) {
    if (row.lease_orphaned & ~OVERDUE || (row.worker_id !== null && core.fleet.byId(row.worker_id))) continue;
    orphanLease(core.sql, row.id, row.fence_token, graceEnds, ORPHANED.byQueue);
    due(core, graceEnds);
    record(core, row, 'disconnected', 'the queue was down');
  }
}

/** Transient jobs whose worker did not come back in time: their callers are told, or tried elsewhere. */
export function giveUpOrphans(core: Core): void {
  const before = core.now() - core.settings.reconnect_grace_seconds * 1000;
  for (const job of [...core.transients.all()]) {
    if (job.orphaned_at === null || job.orphaned_at > before) continue;
    giveUp(core, job, 'the worker disconnected and did not come back');
  }
}

/** The attempt of a transient job went with its worker or the connection: whoever waits may ask again. */
export function giveUp(core: Core, job: TransientJob, message: string): void {
  const reason = { message, code: 'worker_died', retryable: true };
  core.transients.remove(job);
  core.callLedgers.record(job, 'attempt_failed', `${reason.code}: ${reason.message}`);
  if (job.answer) {
    job.answer({ kind: 'error', failure: reason, worker_id: job.worker_id ?? '' });
    return;
  }
  const relay = relayName(core.settings.queue_id, job.worker_id ?? '');
  core.breakStream(relay, streamIdOf(job.fence_token), reason);
}
