import { isFinal, type Launch } from '../launch.ts';

/** A launch needs a daily budget that pays for all machines and itself for this many ms more. */
const LAUNCH_RESERVE_MS = 30 * 60_000;
/** Every worker begins to drain this many ms before the daily budget is spent. */
const DRAIN_RESERVE_MS = 5 * 60_000;
const HOUR_MS = 3_600_000;

/** The remaining budget, which each decided launch reduces. */
export class Budget {
  /** The price of everything that is not known to have ended, US dollars an hour. */
  perHour: number;
  /** The limit that prevented a launch. */
  stoppedBy: 'hour' | 'day' | null = null;
  readonly #limits: { per_hour?: number; per_day?: number };
  readonly #spentToday: number;
  readonly #leftOfDayMs: number;

  constructor(
    limits: { per_hour?: number; per_day?: number },
    spentToday: number,
    launches: Launch[],
    now: number,
  ) {
    this.#limits = limits;
    this.#spentToday = spentToday;
    this.#leftOfDayMs = 24 * HOUR_MS - (now % (24 * HOUR_MS));
    this.perHour = launches
      .filter((launch) => !isFinal(launch))
      .reduce((sum, { price_per_hour }) => sum + price_per_hour, 0);
  }

  /** Takes a launch's price off the budget. @returns false when a limit forbids it, which `stoppedBy` then names */
  take(pricePerHour: number): boolean {
    const { per_hour, per_day } = this.#limits;
    const after = this.perHour + pricePerHour;
    if (per_hour !== undefined && after > per_hour + 1e-9) this.stoppedBy = 'hour';
    else if (per_day !== undefined && this.#spentIn(LAUNCH_RESERVE_MS, after) > per_day)
      this.stoppedBy = 'day';
    else {
      this.perHour = after;
      return true;
    }
    return false;
  }

  /** Whether the daily budget is used up, so that every worker is drained. */
  get isSpent(): boolean {
    const { per_day } = this.#limits;
    if (per_day === undefined || this.perHour === 0) return false;
    if (this.#spentIn(DRAIN_RESERVE_MS, this.perHour) <= per_day) return false;
    this.stoppedBy = 'day';
    return true;
  }

  /** Returns today's cost after `ms` more. */
  #spentIn(ms: number, perHour: number): number {
    return this.#spentToday + (perHour * Math.min(ms, this.#leftOfDayMs)) / HOUR_MS;
  }

  inWords(): string {
    const { per_hour, per_day } = this.#limits;
    if (this.stoppedBy === 'hour') {
      return `the budget of $${per_hour} an hour is reached: $${this.perHour.toFixed(2)} an hour run`;
    }
    return `the budget of $${per_day} a day is reached: $${this.#spentToday.toFixed(2)} are spent today`;
  }
}
