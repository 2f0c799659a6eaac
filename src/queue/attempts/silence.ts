import { CLOSE, limits } from '../../protocol/index.ts';
import type { Worker } from '../state/live-fleet.ts';
import type { Core } from '../state/state.ts';
import { disconnect } from '../verbs/disconnect.ts';

/**
 * Half-open sockets: the network between is gone and nobody was told. A worker of ours pings whatever else it
 * does, so one that has been silent for two periods and a third (what a ping may be late) is gone. A base
 * worker's pings are answered below us and prove nothing here; its leases alone tell.
 *
 * Nothing is watched all the time. It is looked at before a slot is filled, by the tick while callers wait,
 * and by the alarm while such workers hold stored jobs: an idle queue stays asleep.
 */

/** How long a worker of ours may be silent, ms. */
export function silenceLimitMs(core: Core): number {
  return (core.settings.ping_seconds * 7000) / 3;
}

/** Whether it is gone; if so its socket is closed, and the reconnect grace begins. */
export function closeIfSilent(core: Core, worker: Worker): boolean {
  const { session, connection } = worker;
  if (!session.extended || core.now() - connection.lastHeardMs() < silenceLimitMs(core)) return false;
  close(core, worker, 'two ping periods');
  return true;
}

/**
 * A worker of ours that let a lease run out gets nothing until it says something. A base worker that is idle
 * never does: silent for a whole lease it loses its socket, and one that lives dials again.
 */
export function leaseRanOut(core: Core, worker: Worker): void {
  const silentMs = core.now() - worker.connection.lastHeardMs();
  if (worker.session.extended) worker.silent = true;
  else if (silentMs >= limits.BASE_LEASE_SECONDS * 1000) close(core, worker, 'a whole lease');
}

function close(core: Core, { connection, session }: Worker, silence: string): void {
  core.log('warn', `worker silent for ${silence}: closing its socket`, { worker_id: session.worker_id });
  connection.close(CLOSE.silent, `nothing heard for ${silence}`);
  // The peer will hardly answer the close: until then the runtime lists the socket, without a session.
  connection.save(null);
  disconnect(core, connection, `nothing heard for ${silence}`);
}

/** The same for every worker. */
export function closeSilent(core: Core): void {
  for (const worker of core.fleet.all()) closeIfSilent(core, worker);
}

/** Epoch ms at which a worker that holds jobs may turn out to be gone; null: there is none. */
export function nextSilence(core: Core): number | null {
  let next: number | null = null;
  for (const { session, running, connection } of core.fleet.all()) {
    if (!session.extended || running.size === 0) continue;
    const at = connection.lastHeardMs() + silenceLimitMs(core);
    if (next === null || at < next) next = at;
  }
  return next;
}
