import { bounds, CLOSE } from '../../protocol/index.ts';
import type { Core } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';
import { loseConnection } from './lost-connection.ts';

/**
 * Detects half-open sockets: the network between both ends is gone and neither end knows. An extended peer always
 * pings, so one that was not heard for two and a third periods (a ping may be that late) is gone. The runtime answers a
 * base worker's pings by itself, so its pings prove nothing here; only renewals of its leases do.
 *
 * The queue looks for half-open sockets before it fills a slot, in its tick while callers wait, and in its alarm while
 * extended workers hold stored jobs; so an idle queue stays asleep.
 */

/** Returns the time after which a silent extended peer counts as gone, ms. */
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

/** Closes the socket of every worker that is gone. */
export function closeHalfOpen(core: Core): void {
  for (const worker of core.workers.all()) closeIfHalfOpen(core, worker);
}

/**
 * Handles a worker that let a lease run out. An extended peer gets no jobs until it says something. A base worker that
 * is idle never says anything: after a whole lease of silence the queue closes its socket, and a base worker that lives
 * dials again.
 */
export function leaseRanOut(core: Core, worker: Worker): void {
  if (profileOf(worker).pingsAreHeard) worker.unresponsive = true;
  else if (unheardMs(core, worker) >= bounds.BASE_LEASE_SECONDS * 1000) close(core, worker, 'a whole lease');
}

/**
 * Returns the epoch ms at which an extended worker that holds jobs may turn out to be gone; null if no such worker
 * holds any.
 */
export function nextHalfOpen(core: Core): number | null {
  let next: number | null = null;
  for (const worker of core.workers.all()) {
    if (!profileOf(worker).pingsAreHeard || worker.running.size === 0) continue;
    const at = heardAt(core, worker) + unheardLimitMs(core);
    if (next === null || at < next) next = at;
  }
  return next;
}

/**
 * Returns when the worker was last heard, epoch ms, or when the queue last resumed after a standstill, if that is
 * later.
 */
function heardAt({ workers }: Core, { connection }: Worker): number {
  return Math.max(connection.lastHeardMs(), workers.silenceCountsFrom);
}

function unheardMs(core: Core, worker: Worker): number {
  return core.now() - heardAt(core, worker);
}

function close(core: Core, { connection, session }: Worker, period: string): void {
  core.log('warn', `worker not heard for ${period}: closing its socket`, { worker_id: session.worker_id });
  connection.close(CLOSE.silent, `nothing heard for ${period}`);
  // Until the peer answers the close, which it hardly will, the host lists the socket, without a session.
  connection.save(null);
  loseConnection(core, connection, `nothing heard for ${period}`);
}
