import type { Budgets } from '../protocol/index.ts';

/** The seconds for which an amount counts after the end of its own second. */
const COUNTS_SECONDS = 60;

/** One second: the epoch s at which it began, and the amount that was added in it. */
export type WindowSlot = [second: number, amount: number];

/**
 * Sums what was used within the last minute. An amount counts until 60 s after the end of the second that it was added
 * in, so that no 60 s, wherever they begin, have more than the sum ever was; an amount is forgotten up to a second
 * late.
 */
export class SlidingWindow {
  /** The seconds that still count, the oldest first. */
  readonly #slots: WindowSlot[];
  #sum: number;

  /**
   * Continues an earlier window.
   * @param slots the seconds of that window
   * @param now epoch ms; slots later than this, from before a clock was set back, move to it
   */
  constructor(slots: readonly WindowSlot[] = [], now = 0) {
    this.#slots = slots.map(([second, amount]) => [Math.min(second, secondOf(now)), amount]);
    this.#sum = this.#slots.reduce((sum, [, amount]) => sum + amount, 0);
  }

  /**
   * Adds an amount.
   * @param at epoch ms
   * @param amount below 0, it corrects what was added in the same second. Nothing is taken from other seconds, since
   * usage of others would then be forgotten before its minute is over.
   */
  add(at: number, amount: number): void {
    this.sum(at);
    const second = secondOf(at);
    const index = this.#slots.findLastIndex(([own]) => own <= second);
    const slot = this.#slots[index];
    if (slot?.[0] !== second) {
      if (amount <= 0) return;
      this.#slots.splice(index + 1, 0, [second, amount]);
      this.#sum += amount;
      return;
    }
    const change = Math.max(amount, -slot[1]);
    slot[1] += change;
    this.#sum += change;
    if (slot[1] === 0) this.#slots.splice(index, 1);
  }

  sum(now: number): number {
    while (this.#slots.length > 0 && countsUntil(this.#slots[0]!) <= now)
      this.#sum -= this.#slots.shift()![1];
    return this.#sum;
  }

  /** Returns the epoch ms from which the sum is at most this, if nothing is added. @param most at least 0 */
  fallsTo(most: number, now: number): number {
    let left = this.sum(now);
    for (const slot of this.#slots) {
      if (left <= most) break;
      left -= slot[1];
      if (left <= most) return countsUntil(slot);
    }
    return now;
  }

  /** Returns the epoch ms from which the sum is 0, if nothing is added. */
  emptyAt(now: number): number {
    this.sum(now);
    const newest = this.#slots.at(-1);
    return newest === undefined ? now : countsUntil(newest);
  }

  /** Returns the seconds that still count, from which the object's next life makes its window. */
  slots(now: number): WindowSlot[] {
    this.sum(now);
    return this.#slots;
  }
}

function secondOf(now: number): number {
  return Math.floor(now / 1000);
}

/** Returns the epoch ms at which a second counts no more. */
function countsUntil([second]: WindowSlot): number {
  return (second + 1 + COUNTS_SECONDS) * 1000;
}

export type CalendarUnit = 'day' | 'month';

/** All budgets, in the order in which they are checked. */
export const BUDGETS = [
  'dollars_per_month',
  'tokens_per_month',
  'dollars_per_day',
  'tokens_per_day',
] as const satisfies (keyof Budgets)[];

export function isBudget(limit: string): limit is keyof Budgets {
  return BUDGETS.some((name) => name === limit);
}

/** Says whether a budget is in money. */
export function isMoney(budget: keyof Budgets): boolean {
  return budget.startsWith('dollars');
}

export function unitOf(budget: keyof Budgets): CalendarUnit {
  return budget.endsWith('_day') ? 'day' : 'month';
}

/** The sum of what was used since the current day or month began, in UTC. */
export class CalendarSum {
  readonly #unit: CalendarUnit;
  /** The epoch ms at which the next day or month begins. */
  #end: number;
  #sum = 0;

  constructor(unit: CalendarUnit, now: number) {
    this.#unit = unit;
    this.#end = endOf(unit, now);
  }

  /** Adds an amount. @param amount below 0, it corrects an amount that was too large */
  add(now: number, amount: number): void {
    this.#turn(now);
    this.#sum += amount;
  }

  sum(now: number): number {
    this.#turn(now);
    return this.#sum;
  }

  /** Replaces the sum by one that was read anew. */
  set(now: number, amount: number): void {
    this.#end = endOf(this.#unit, now);
    this.#sum = amount;
  }

  /** Begins a new sum once the day or month is over. If the clock was set back, the sum stays. */
  #turn(now: number): void {
    if (now >= this.#end) this.set(now, 0);
  }
}

/** Returns the epoch ms at which the day or the month of this time began, in UTC. */
export function startOf(unit: CalendarUnit, now: number): number {
  const at = new Date(now);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), unit === 'day' ? at.getUTCDate() : 1);
}

/** Returns the epoch ms at which the next day or month begins, in UTC. */
export function endOf(unit: CalendarUnit, now: number): number {
  const at = new Date(now);
  return unit === 'day'
    ? Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate() + 1)
    : Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1);
}
