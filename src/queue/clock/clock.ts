import { standsStill } from '../../durable/machine-time.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { nextDue } from '../store/jobs-table.ts';
import { latestTime, moveTimesBack, rememberTime } from '../store/times.ts';

/**
 * A clock that is set back. In a running object `now` never goes back: it stands still until the clock is again
 * where it was, and every timer and alarm of the object with it. Only a new object has the new time. So the object
 * resets itself, and when it starts, what is stored moves back by as much as the clock did: a lease with ten
 * seconds left has ten seconds left.
 */

/** Asking the machine is a statement: an object that is asked again within so many ms does it every so many times. */
const BUSY = { ms: 100, every: 8 };

/** Whether the clock of this object stands still since it was set back. */
export class ClockWatch {
  readonly #core: Core;
  /** Epoch ms at the last look. */
  #before = 0;
  /** Looks until the machine is asked again. */
  #until = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  /** To be asked after every event: the clock is compared only if it has hardly moved since the last time. */
  standsStill(): boolean {
    const now = this.#core.now();
    const movedMs = now - this.#before;
    this.#before = now;
    this.#until = movedMs > BUSY.ms ? 0 : this.#until - 1;
    if (movedMs > 1 || this.#until > 0) return false;
    this.#until = BUSY.every;
    return standsStill(now, this.#core.machineTime());
  }

  /** For the object that starts next: until when this one lived. */
  leaveWord(): void {
    rememberTime(this.#core.sql, this.#core.now());
  }
}

/** At the start: nothing stored may be of the future. */
export function followClockBack(core: Core): void {
  const now = core.now();
  const backMs = (latestTime(core.sql) ?? now) - now;
  if (backMs <= 0) return;
  moveTimesBack(core.sql, backMs, now);
  const next = nextDue(core.sql);
  if (next !== null) due(core, Math.max(next, now));
  core.log('warn', 'the clock was set back: leases, delays and deadlines move with it', {
    seconds: Math.round(backMs / 1000),
  });
}
