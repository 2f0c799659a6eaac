import { standsStill } from './machine-time.ts';

/**
 * Reading the machine's clock takes a statement, which costs little beside a commit. Events that stay in memory and
 * come within `ms` of each other read it only every `every` events.
 */
const BUSY = { ms: 100, every: 8 };

/**
 * Notices that the clock of an object stands still since the machine's was set back. In a running object `Date.now()`
 * never goes back: it stands still until the machine's clock is again where it was, and every timer and alarm of the
 * object with it. Only a new object has the new time.
 */
export class ClockWatch {
  readonly #now: () => number;
  readonly #machineTime: () => number;
  /** The object's time at the last event, epoch ms. */
  #before = 0;
  /** The number of events without a commit until the machine's clock is read again. */
  #until = 0;

  /** @param now the object's clock, epoch ms @param machineTime the machine's clock, epoch ms */
  constructor(now: () => number, machineTime: () => number) {
    this.#now = now;
    this.#machineTime = machineTime;
  }

  /**
   * Returns whether the object's clock stands still. The host asks at every event.
   * @param isCertain whether the machine's clock is read in any case, as for an event that is committed: once a worker
   *   is lost and the next one waits for its jobs, no other event may come for long, since no timer ends that wait
   */
  standsStill(isCertain: boolean): boolean {
    const now = this.#now();
    const movedMs = now - this.#before;
    this.#before = now;
    if (!isCertain && !this.#isWorthAsking(movedMs)) return false;
    return standsStill(now, this.#machineTime());
  }

  /** Returns whether the clock has hardly moved since the last event and it is this one's turn for the machine's. */
  #isWorthAsking(movedMs: number): boolean {
    this.#until = movedMs > BUSY.ms ? 0 : this.#until - 1;
    if (movedMs > 1 || this.#until > 0) return false;
    this.#until = BUSY.every;
    return true;
  }
}
