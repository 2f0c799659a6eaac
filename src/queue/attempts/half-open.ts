import { CLOSE, limits } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';
import { loseConnection } from './lost-connection.ts';

/**
 * Half-open sockets: the network between both ends is gone and neither end knows. An extended peer always pings, so one
 * that was not heard for two periods and a third (a ping may be that late) is gone. The runtime answers a base worker's
 * pings by itself, so they prove nothing here; only its leases do.
 *
 * The queue looks for them before it fills a slot, in its tick while callers wait, and in its alarm while such workers
 * hold stored jobs; so an idle queue stays asleep.
 */

/** How long an extended peer may be silent, ms. */
export function unheardLimitMs(core: Core): number {
  return (core.settings.ping_seconds * 7000) / 3;
}

/** Closes the socket of a worker that is gone, which begins the reconnect grace. @returns whether it did */
export function closeIfHalfOpen(core: Core, worker: Worker): boolean {
  if (!profileOf(worker).pingsAreHeard) return false;
  if (unheardMs(core, worker) < unheardLimitMs(core)) return false;
  close(core, worker, 'two ping periods');
  return true;
}

/** The same for every worker. */
export function closeHalfOpen(core: Core): void {
  for (const worker of core.workers.all()) closeIfHalfOpen(core, worker);
}

/**
 * An extended peer that let a lease run out gets nothing until it says something. An idle base worker never does: after
 * a whole lease of silence the queue closes its socket, and one that lives dials again.
 */
export function leaseRanOut(core: Core, worker: Worker): void {
  if (profileOf(worker).pingsAreHeard) worker.unresponsive = true;
  else if (unheardMs(core, worker) >= limits.BASE_LEASE_SECONDS * 1000) close(core, worker, 'a whole lease');
}

/** Epoch ms at which a worker that holds jobs may turn out to be gone; null: there is none. */
export function nextHalfOpen(core: Core): number | null {
  let next: number | null = null;
  for (const worker of core.workers.all()) {
    if (!profileOf(worker).pingsAreHeard || worker.running.size === 0) continue;
    const at = heardAt(core, worker) + unheardLimitMs(core);
    if (next === null || at < next) next = at;
  }
  return next;
}

/** Epoch ms; later where the queue stood still since. */
function heardAt({ workers }: Core, { connection }: Worker): number {
  return Math.max(connection.lastHeardMs(), workers.silenceCountsFrom);
}

function unheardMs(core: Core, worker: Worker): number {
  return core.now() - heardAt(core, worker);
}

function close(core: Core, { connection, session }: Worker, period: string): void {
  core.log('warn', `worker not heard for ${period}: closing its socket`, { worker_id: session.worker_id });
  connection.close(CLOSE.silent, `nothing heard for ${period}`);
  // The peer will hardly answer the close: until then the host lists the socket, without a session.
  connection.save(null);
  loseConnection(core, connection, `nothing heard for ${period}`);
}
