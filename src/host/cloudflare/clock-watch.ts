import { standsStill } from './machine-time.ts';

/**
 * Asking the machine is a statement. Beside a commit it costs little; an event that stays in memory and comes within so
 * many ms of another asks every so many times.
 */
const BUSY = { ms: 100, every: 8 };

/**
 * Whether the clock of an object stands still since it was set back. In a running object `Date.now()` never goes back:
 * it stands still until the clock is again where it was, and every timer and alarm of the object with it. Only a new
 * object has the new time.
 */
export class ClockWatch {
  readonly #now: () => number;
  readonly #machineTime: () => number;
  /** Epoch ms at the last event. */
  #before = 0;
  /** Events without a commit until the machine is asked again. */
  #until = 0;

  /** @param now epoch ms as the object has it @param machineTime epoch ms as the machine tells it */
  constructor(now: () => number, machineTime: () => number) {
    this.#now = now;
    this.#machineTime = machineTime;
  }

  /**
   * To be asked at every event.
   * @param isCertain the machine is asked: the event is committed. No other event may come for long once a worker is lost
   *   and the next one waits for its jobs, since no timer ends that wait
   */
  standsStill(isCertain: boolean): boolean {
    const now = this.#now();
    const movedMs = now - this.#before;
    this.#before = now;
    if (!isCertain && !this.#isWorthAsking(movedMs)) return false;
    return standsStill(now, this.#machineTime());
  }

  /** The clock has hardly moved since the last event, and it is the turn of this one. */
  #isWorthAsking(movedMs: number): boolean {
    this.#until = movedMs > BUSY.ms ? 0 : this.#until - 1;
    if (movedMs > 1 || this.#until > 0) return false;
    this.#until = BUSY.every;
    return true;
  }
}
