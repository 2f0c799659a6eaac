import { leaseSecondsFor } from '../attempts/lease.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { leasedJobs } from '../store/leases-table.ts';

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
  core.limits.earlier.postpone(graceEnds);
  for (const job of core.waiting.all()) if (job.lease_expires_at !== null) job.lease_expires_at = graceEnds;
}
