import type { Budgets } from '../../protocol/index.ts';

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

/**
 * Says whether a budget is in money, which is counted in billionths of a US dollar, since sums of whole numbers are
 * exact.
 */
export function isMoney(budget: keyof Budgets): boolean {
  return budget.startsWith('dollars');
}

export const NANO = 1e9;

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
