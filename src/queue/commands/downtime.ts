import { leaseSecondsFor } from '../attempts/connection.ts';
import { emit } from '../events/projection.ts';
import { ORPHANED } from '../job.ts';
import type { Core } from '../state/state.ts';
import { newWorker, occupySlot } from '../state/worker.ts';
import { leasedByWorker, leasedJobs } from '../store/leases-table.ts';
import { due } from '../store/ports.ts';
import { readCordon, servedBySession, sessionsEndedSince } from '../store/session-table.ts';
import { latestTime, moveTimesBack, rememberTime } from '../store/times.ts';

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
    core.admission.earlier.awaitWorker(worker_id, Math.min(heard_at, now) + graceMs);
  }
}

/**
 * Handles a clock that is set back. In a running object `now` never goes back: only a new object has the new time. So
 * the host starts the object again, and the new object moves what is stored back by as much as the clock went: a lease
 * with ten seconds left still has ten seconds left.
 */

/** Stores the time until which this object lived, for the object that starts next. */
export function noteTime(core: Core): void {
  rememberTime(core.sql, core.now());
}

/** Moves stored times back at the object's start, so that none lies in the future. */
export function followClockBack(core: Core): void {
  const now = core.now();
  const backMs = (latestTime(core.sql) ?? now) - now;
  if (backMs <= 0) return;
  moveTimesBack(core.sql, backMs, now);
  // The alarm would come late, as it was set by the earlier clock. When it comes it is set for what is due next.
  due(core, now);
  core.log('warn', 'the clock was set back: leases, delays and deadlines move with it', {
    seconds: Math.round(backMs / 1000),
  });
}

/** No check is later than this while the queue runs, ms: alarms may come some seconds late. */
const STANDSTILL_MS = 5000;
/**
 * A check that is later than this, ms, may be late because the queue stood still, so leases are extended by the delay.
 */
const PUNCTUAL_MS = 500;
/** A frame that dispatches a job leaves with its commit, which takes no longer than this, ms. */
const COMMIT_MS = 1000;
/** The time from finding something overdue to judging it, ms: enough to read what lies in the sockets. */
export const SECOND_LOOK_MS = 1000;

/**
 * Keeps workers from being blamed for time in which the queue did not run: its process was stopped, its machine slept
 * or had no core for it, or its clock was set forward. A check that comes long after it was due shows that. Frames that
 * workers sent meanwhile are still unread in their sockets, so the queue judges nothing then: all leases and graces
 * begin anew, and it checks again a moment later, when it has read the sockets.
 */
export class Standstill {
  readonly #core: Core;
  /** The epoch ms of the last event. */
  #lastAt: number;
  /** The newest period without events that was long enough to have been a standstill. */
  #quiet = { from: 0, until: 0 };
  /** The overdue alarm that was set again, epoch ms; null: none was. */
  #hurried: number | null = null;
  /** The epoch ms before which nothing overdue is judged. */
  judgesFrom = 0;

  constructor(core: Core) {
    this.#core = core;
    this.#lastAt = core.now();
  }

  /** Notes an event; to be called before the event is handled. */
  eventCame(): void {
    const now = this.#core.now();
    if (now - this.#lastAt > PUNCTUAL_MS) this.#quiet = { from: this.#lastAt, until: now };
    this.#lastAt = now;
    this.#hurryAlarm(now);
  }

  /**
   * Sets an overdue alarm again. The runtime's alarm counts on a clock that nobody sets: if the wall clock was set
   * forward, the alarm is overdue long before it fires, and nothing that is due later moves it. The runtime fires an
   * alarm at once when its time is over.
   */
  #hurryAlarm(now: number): void {
    const { alarm } = this.#core;
    const armed = alarm.get();
    if (armed === null || armed === this.#hurried || now - armed <= STANDSTILL_MS) return;
    this.#hurried = armed;
    alarm.set(armed);
  }

  /**
   * Says whether what is overdue may be judged now.
   * @param dueAt epoch ms at which this check was due; null: nothing was due
   */
  mayJudge(dueAt: number | null): boolean {
    this.eventCame();
    const now = this.#core.now();
    const lateMs = dueAt === null ? 0 : now - Math.max(dueAt, this.judgesFrom);
    if (lateMs > STANDSTILL_MS) {
      beginLeasesAnew(this.#core, 0);
      this.#core.log('warn', 'the queue stood still, or its clock was set forward: all leases begin anew');
      this.judgesFrom = now + SECOND_LOOK_MS;
    } else if (lateMs > PUNCTUAL_MS) {
      this.#core.stored.postponeAll(lateMs);
      // The queue stood still for longer than this check was late, and frames of jobs that it dispatched just before
      // left only after the standstill.
      if (this.#quiet.until > now - lateMs) beginLeasesAnew(this.#core, this.#quiet.from - COMMIT_MS);
    }
    return now >= this.judgesFrom;
  }
}

/**
 * Restarts every lease as if its worker had been heard, or lost, just now.
 * @param since epoch ms: only leases given from then on; 0: all leases, and the silences and graces of workers too
 */
function beginLeasesAnew(core: Core, since: number): void {
  const now = core.now();
  const graceEnds = now + core.settings.reconnect_grace_seconds * 1000;
  for (const row of leasedJobs(core.sql)) {
    if ((row.leased_at ?? 0) < since) continue;
    const holder = row.worker_id === null ? null : core.workers.byId(row.worker_id);
    const expiresAt = holder ? now + leaseSecondsFor(core, holder) * 1000 : graceEnds;
    core.stored.postpone(row, Math.max(expiresAt, row.lease_expires_at ?? 0), false);
    due(core, expiresAt);
  }
  if (since > 0) return;
  core.workers.silenceCountsFrom = now;
  core.workers.postponeReturns(graceEnds);
  core.admission.earlier.postpone(graceEnds);
  for (const job of core.waiting.all()) if (job.lease_expires_at !== null) job.lease_expires_at = graceEnds;
}
