import { tellDisconnected } from '../events/fleet-events.ts';
import { emit } from '../events/projection.ts';
import { ORPHANED } from '../job.ts';
import { type Core, leasedBy, storeOf } from '../state/state.ts';
import type { Connection } from '../store/ports.ts';
import { endSession } from '../store/session-table.ts';

/**
 * Handles the close of a control socket. The worker may only have lost the network: its jobs wait for it until the
 * reconnect grace is over.
 */
export function loseConnection(core: Core, connection: Connection, reason: string): void {
  const worker = core.workers.remove(connection);
  // A newer connection has replaced this one: nothing is lost.
  if (!worker || core.workers.byId(worker.session.worker_id)) return;
  const now = core.now();
  const graceEnds = now + core.settings.reconnect_grace_seconds * 1000;
  for (const job of leasedBy(core, worker.session.worker_id)) {
    storeOf(core, job).orphan(job, graceEnds, ORPHANED.byWorker);
    emit(core, job, 'disconnected');
  }
  core.admission.earlier.lostWorker(worker.session.worker_id, graceEnds);
  core.workers.expect(worker, graceEnds);
  endSession(core.sql, worker.session.worker_id, now);
  tellDisconnected(core, worker, reason);
  core.log('info', 'worker disconnected', { worker_id: worker.session.worker_id });
}
