import { emit } from '../events/emit.ts';
import type { Core } from '../state/state.ts';
import { newWorker, occupySlot } from '../state/worker.ts';
import { readCordon } from '../store/cordon-table.ts';
import { leasedByWorker, leasedJobs, ORPHANED } from '../store/leases-table.ts';
import { servedBySession, sessionsEndedSince } from '../store/session-table.ts';

/** Reads workers and jobs back from both stores after a hibernation, which leaves the sockets and loses the memory. */
export function restoreFleet(core: Core): void {
  core.workers.cordon(readCordon(core.sql));
  const sessions = core.connections().flatMap((connection) => {
    const session = connection.load();
    return session === null ? [] : [{ connection, session }];
  });
  if (sessions.length === 0) return;
  const served = servedBySession(core.sql);
  // The oldest session comes first, so that the newest connection of a worker id is the one that counts.
  sessions.sort((a, b) => a.session.connected_at - b.session.connected_at);
  for (const { connection, session } of sessions) {
    const worker = newWorker(
      connection,
      session,
      served.get(session.worker_id) ?? { models: [], adapters: null },
    );
    for (const job of leasedByWorker(core.sql, session.worker_id))
      occupySlot(worker, job, job.leased_at ?? core.now());
    core.workers.add(worker);
  }
}

/**
 * Orphans leases at the start of the object: holders that have no socket here, since the queue itself was down, get one
 * grace to come back. So do holders that had lost theirs before, since they dialled in vain.
 */
export function orphanAfterRestart(core: Core): void {
  const graceEnds = core.now() + core.settings.reconnect_grace_seconds * 1000;
  // A hibernation leaves the other sockets open, and a worker that dials ends it: no worker dialled in vain.
  const isCounted = core.connections().length > 0 ? ORPHANED.byQueue | ORPHANED.byWorker : ORPHANED.byQueue;
  for (const job of leasedJobs(core.sql)) {
    if (job.lease_orphaned & isCounted || (job.worker_id !== null && core.workers.byId(job.worker_id)))
      continue;
    core.stored.orphan(job, graceEnds, ORPHANED.byQueue);
    emit(core, job, 'disconnected', 'the queue was down');
  }
}

/**
 * Awaits workers that lost their connections with the earlier process, or shortly before: they may go on with requests
 * that they alone know of.
 */
export function awaitEarlierRequests(core: Core): void {
  const graceMs = core.settings.reconnect_grace_seconds * 1000;
  const now = core.now();
  for (const { worker_id, heard_at } of sessionsEndedSince(core.sql, now - graceMs)) {
    // The clock may have been set back since that time was stored.
    core.limits.earlier.awaitWorker(worker_id, Math.min(heard_at, now) + graceMs);
  }
}
