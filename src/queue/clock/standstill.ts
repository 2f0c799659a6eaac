import { leaseSecondsFor } from '../attempts/lease.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { leasedJobs } from '../store/leases-table.ts';

/** No check is this late while the queue runs, ms: alarms may come some seconds late. */
const STANDSTILL_MS = 5000;
/** A check that is later than this, ms, may be late because the queue stood still: leases last that much longer. */
const PUNCTUAL_MS = 500;
/** A frame that gives a job away leaves with its commit, which takes no longer than this, ms. */
const COMMIT_MS = 1000;
/** From when something is found overdue until it is judged, ms: enough to read what lies in the sockets. */
export const SECOND_LOOK_MS = 1000;

/**
 * No worker is blamed for time in which the queue did not run: its process was stopped, its machine slept or had no core
 * for it, or its clock was set forward. A check that comes long after it was due shows that. Frames that workers sent
 * meanwhile are still unread in their sockets, so the queue judges nothing then: all leases and graces begin anew, and
 * it checks again a moment later, when it has read the sockets.
 */
export class Standstill {
  readonly #core: Core;
  /** Epoch ms of the last event, and the newest time without any that was long enough to have been a standstill. */
  #lastAt: number;
  #quiet = { from: 0, until: 0 };
  /** The overdue alarm that was set again, epoch ms. */
  #hurried: number | null = null;
  /** Epoch ms; before, nothing that is overdue is judged. */
  judgesFrom = 0;

  constructor(core: Core) {
    this.#core = core;
    this.#lastAt = core.now();
  }

  /** To be called at every event, before it is handled. */
  eventCame(): void {
    const now = this.#core.now();
    if (now - this.#lastAt > PUNCTUAL_MS) this.#quiet = { from: this.#lastAt, until: now };
    this.#lastAt = now;
    this.#hurryAlarm(now);
  }

  /**
   * The runtime's alarm counts on a clock that nobody sets. Where the wall clock was set forward it is overdue long before
   * it fires, and nothing that is due later moves it. The runtime fires at once what is set for a time that is over.
   */
  #hurryAlarm(now: number): void {
    const { alarm } = this.#core;
    const armed = alarm.get();
    if (armed === null || armed === this.#hurried || now - armed <= STANDSTILL_MS) return;
    this.#hurried = armed;
    alarm.set(armed);
  }

  /**
   * Whether what is overdue may be judged now.
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
      // It stood still for longer than this check was late, and jobs that it gave away just before left only afterwards.
      if (this.#quiet.until > now - lateMs) beginLeasesAnew(this.#core, this.#quiet.from - COMMIT_MS);
    }
    return now >= this.judgesFrom;
  }
}

/**
 * Every lease lasts as if its worker had been heard, or lost, just now.
 * @param since epoch ms: only those that were given from then on; 0: all, and the silences and graces of workers too
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
