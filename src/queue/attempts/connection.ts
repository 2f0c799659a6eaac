import { bounds, CLOSE, matchesPattern, type Register } from '../../protocol/index.ts';
import { tellDisconnected } from '../events/fleet-events.ts';
import { emit } from '../events/projection.ts';
import { ORPHANED } from '../job.ts';
import { type Core, leasedBy, storeOf } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';
import type { Connection } from '../store/ports.ts';
import { endSession, findTokenName } from '../store/session-table.ts';
import { MACHINE_TAKEN, releaseAttempt } from './end.ts';

/*
 * Rules about a worker's connection: how long its leases last, which connections may be its own, and what becomes of
 * its jobs when it is lost or half-open, or its token expires.
 */

/**
 * Handles the close of a control socket. The worker may only have lost the network: its jobs wait for it until the
 * reconnect grace is over. Stored jobs of a machine that is being taken away do not wait.
 * @param leastGrace the least length of the grace, s
 */
export function loseConnection(core: Core, connection: Connection, reason: string, leastGrace = 0): void {
  const worker = core.workers.remove(connection);
  // A newer connection has replaced this one: nothing is lost.
  if (!worker || core.workers.byId(worker.session.worker_id)) return;
  const now = core.now();
  const graceEnds = now + Math.max(leastGrace, core.settings.reconnect_grace_seconds) * 1000;
  for (const job of leasedBy(core, worker.session.worker_id)) {
    // A machine that is taken away does not come back, and its jobs are not to blame.
    if (worker.session.preempted && job.mode === 'stored') {
      releaseAttempt(core, job, MACHINE_TAKEN);
      continue;
    }
    storeOf(core, job).orphan(job, graceEnds, ORPHANED.byWorker);
    emit(core, job, 'disconnected');
  }
  core.admission.earlier.lostWorker(worker.session.worker_id, graceEnds);
  core.workers.expect(worker, graceEnds);
  endSession(core.sql, worker.session.worker_id, now);
  tellDisconnected(core, worker, reason);
  core.log('info', 'worker disconnected', { worker_id: worker.session.worker_id });
}

/*
 * A socket is half-open if the network between both ends is gone and neither end knows. An extended peer always pings,
 * so one that was silent for two and a third periods (a ping may be that late) is gone. The runtime answers a base
 * worker's pings by itself, so its pings prove nothing here; only renewals of its leases do.
 *
 * The queue looks for half-open sockets before it fills a slot, in its tick while callers wait, and in its alarm while
 * extended workers hold stored jobs; so an idle queue stays asleep. The fleet object has it look at workers whose
 * heartbeats are late.
 */

/** Returns the time after which a silent extended peer counts as gone, ms. */
export function unheardLimitMs(core: Core): number {
  return (core.settings.ping_seconds * 7000) / 3;
}

/** Closes the worker's socket if the worker is gone, which begins the reconnect grace. @returns whether it did */
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

/** Closes the sockets of those of these workers that are gone; of the others nothing changes. */
export function closeSilent(core: Core, workerIds: readonly string[]): void {
  for (const id of workerIds) {
    const worker = core.workers.byId(id);
    if (!worker) continue;
    if (profileOf(worker).pingsAreHeard) closeIfHalfOpen(core, worker);
    else closeIfSilent(core, worker);
  }
}

/** Handles a worker that let a lease run out. An extended peer gets no jobs until it says something. */
export function leaseRanOut(core: Core, worker: Worker): void {
  if (profileOf(worker).pingsAreHeard) worker.unresponsive = true;
  else closeIfSilent(core, worker);
}

/**
 * Closes the socket of a base worker after a whole lease of silence. One that is idle never says anything, but one that
 * lives dials again.
 */
function closeIfSilent(core: Core, worker: Worker): void {
  if (unheardMs(core, worker) >= bounds.BASE_LEASE_SECONDS * 1000) close(core, worker, 'a whole lease');
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
 * Returns when the worker's newest sign of life came, epoch ms, or when the queue last resumed after a standstill, if
 * that is later.
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
  // The host lists the socket, now without a session, until the peer answers the close, which it hardly will.
  connection.save(null);
  loseConnection(core, connection, `nothing heard for ${period}`);
}

/** Says whether the token that opened the socket has expired. */
function hasExpired(core: Core, { token }: Connection): boolean {
  return token?.expires_at !== undefined && token.expires_at <= core.now();
}

/** Closes the sockets of workers whose tokens have expired by now. */
export function closeExpired(core: Core): void {
  for (const { connection } of core.workers.all()) {
    if (hasExpired(core, connection)) closeForToken(core, connection, 'the token of this worker has expired');
  }
}

/** Returns when the next token of a connected worker expires, epoch ms; null if none does. */
export function nextExpiry(core: Core): number | null {
  const times = core.workers.all().flatMap(({ connection }) => connection.token?.expires_at ?? []);
  return times.length === 0 ? null : times.reduce((next, time) => Math.min(next, time));
}

/**
 * Closes both sockets of a worker, which dials again and is admitted if its token is good.
 * @param why the reason, at most as long as a close frame allows
 */
export function closeForToken(core: Core, connection: Connection, why: string): void {
  const worker = core.workers.byConnection(connection);
  connection.close(CLOSE.restarting, why);
  // The session is dropped, since a peer that does not answer the close stays in the host's list of sockets.
  connection.save(null);
  if (worker) core.closeAnswers(worker.session.worker_id);
  loseConnection(core, connection, why);
}

/**
 * Returns the length of this worker's leases, s. A base worker renews every 30 s from its own start, whatever interval
 * it is told.
 */
export function leaseSecondsFor(core: Core, worker: Worker): number {
  return profileOf(worker).leaseSeconds ?? core.settings.lease_seconds;
}

export interface Denial {
  code: number;
  /** The close frame's text: at most 123 bytes of UTF-8. */
  reason: string;
  /** The text of the error frame that is sent before the close frame. */
  message: string;
}

/** Returns why this connection may not be the worker of that id and pool; null if it may. */
export function denyWorker(core: Core, connection: Connection, frame: Register): Denial | null {
  return denyToken(core, connection, frame) ?? denyOtherMachine(core, connection, frame);
}

/**
 * Denies an id that is held by a connected worker of another machine that still answers: often both use the host name
 * as their id. A worker that restarts or reconnects is on the machine that it was on, and takes over at once.
 */
function denyOtherMachine(
  core: Core,
  connection: Connection,
  { worker_id: workerId, instance }: Register,
): Denial | null {
  const machine = instance?.machine_id ?? null;
  const holder = core.workers.byId(workerId);
  if (machine === null || !holder || holder.connection.id === connection.id) return null;
  const { machine_id = null } = holder.session;
  if (machine_id === null || machine_id === machine || closeIfHalfOpen(core, holder)) return null;
  return {
    code: CLOSE.superseded,
    reason: 'a worker of this id is connected from another machine',
    message: `a worker "${workerId}" is connected from another machine: give each worker its own CASOLA_INSTANCE_ID`,
  };
}

function denyToken(
  core: Core,
  connection: Connection,
  { worker_id: workerId, config_id }: Pick<Register, 'worker_id' | 'config_id'>,
): Denial | null {
  const { token } = connection;
  if (!token) return null;
  if (hasExpired(core, connection)) {
    // The worker dials again, and the gateway then says why it refuses the worker.
    const reason = 'the token of this worker has expired';
    return { code: CLOSE.restarting, reason, message: `the token "${token.name}" has expired` };
  }
  if (token.worker_ids !== null && !matchesPattern(token.worker_ids, workerId)) {
    return {
      code: CLOSE.forbidden,
      reason: 'this token is for other worker ids',
      message: `the token "${token.name}" is for workers named "${token.worker_ids}", not "${workerId}"`,
    };
  }
  // Without this check the worker would be given the prompts of another pool.
  if (token.config_id && token.config_id !== config_id) {
    return {
      code: CLOSE.forbidden,
      reason: 'this token is for another pool',
      message: `the token "${token.name}" is for the pool "${token.config_id}", not ${JSON.stringify(config_id)}`,
    };
  }
  const holder = holderOf(core, workerId);
  if (holder === null || holder === token.name) return null;
  return {
    code: CLOSE.superseded,
    reason: 'this worker id is in use under another token',
    message: `the worker id "${workerId}" is in use under another token: give this worker an id of its own`,
  };
}

/** Returns the name of the token under which an id is in use: its worker is connected, or may come back to its jobs. */
function holderOf(core: Core, workerId: string): string | null {
  const worker = core.workers.byId(workerId);
  if (worker) return worker.connection.token?.name ?? null;
  return leasedBy(core, workerId).length > 0 ? findTokenName(core.sql, workerId) : null;
}
