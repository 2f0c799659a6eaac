import type { Sql } from '../../durable/ports.ts';

/**
 * Events that stay in memory and come within `ms` of each other read the machine's clock only every `every` events: a
 * reading takes a statement, which costs little beside a commit.
 */
const BUSY = { ms: 100, every: 8 };

/**
 * Notices that the clock of an object stands still because the machine's clock was set back. In a running object
 * `Date.now()` never goes back: it stands still until the machine's clock has caught up, and with it every timer and
 * alarm of the object. Only a new object has the new time.
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
   * Returns whether the object's clock stands still; the host calls this at every event.
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

  /**
   * Returns whether the clock has hardly moved since the last event and the machine's clock is to be read at this one.
   */
  #isWorthAsking(movedMs: number): boolean {
    this.#until = movedMs > BUSY.ms ? 0 : this.#until - 1;
    if (movedMs > 1 || this.#until > 0) return false;
    this.#until = BUSY.every;
    return true;
  }
}

/** An object lives on after corrections of the clock up to this many ms: they pass by themselves. */
const SET_BACK_MS = 1000;

/** Returns the machine's time, epoch ms. SQLite reads it itself, while an object's `Date.now()` does not go back. */
export function machineTime(sql: Sql): number {
  return Number(sql.exec(`SELECT unixepoch('now', 'subsec') * 1000 AS ms`)[0]!.ms);
}

/**
 * Returns whether the machine's clock was set back so far that the object has to start again: in a running object `now`
 * never goes back, and its timers stand still until the machine's clock has caught up.
 * @param now the object's time, epoch ms @param machine the machine's time, epoch ms
 */
export function standsStill(now: number, machine: number): boolean {
  return now - machine > SET_BACK_MS;
}
