import { standsStill } from '../../durable/machine-time.ts';
import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { latestTime, moveTimesBack, rememberTime } from '../store/times.ts';

/**
 * A clock that is set back. In a running object `now` never goes back: it stands still until the clock is again
 * where it was, and every timer and alarm of the object with it. Only a new object has the new time. So the object
 * resets itself, and when it starts, what is stored moves back by as much as the clock did: a lease with ten
 * seconds left has ten seconds left.
 */

/**
 * Asking the machine is a statement. Beside a commit it costs little; an event that stays in memory and comes within so
 * many ms of another asks every so many times.
 */
const BUSY = { ms: 100, every: 8 };

/** Whether the clock of this object stands still since it was set back. */
export class ClockWatch {
  readonly #core: Core;
  /** Epoch ms at the last event. */
  #before = 0;
  /** Events without a commit until the machine is asked again. */
  #until = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * To be asked after every event.
   * @param hasCommitted the event wrote something: the machine is asked for certain. No other event may come for long
   *   once a worker is lost and the next one waits for its jobs, since no timer ends that wait
   */
  standsStill(hasCommitted: boolean): boolean {
    const now = this.#core.now();
    const movedMs = now - this.#before;
    this.#before = now;
    if (!hasCommitted && !this.#isWorthAsking(movedMs)) return false;
    return standsStill(now, this.#core.machineTime());
  }

  /** The clock has hardly moved since the last event, and it is the turn of this one. */
  #isWorthAsking(movedMs: number): boolean {
    this.#until = movedMs > BUSY.ms ? 0 : this.#until - 1;
    if (movedMs > 1 || this.#until > 0) return false;
    this.#until = BUSY.every;
    return true;
  }

  /** Notes for the object that starts next until when this one lived. */
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
  // Set for a time of before, the alarm would come late. When it comes it is set for what is due next.
  due(core, now);
  core.log('warn', 'the clock was set back: leases, delays and deadlines move with it', {
    seconds: Math.round(backMs / 1000),
  });
}
