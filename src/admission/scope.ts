import { type Budgets, NANODOLLARS, type RateLimits } from '../protocol/index.ts';
import { BUDGETS, CalendarSum, endOf, isMoney, SlidingWindow, unitOf, type WindowSlot } from './windows.ts';

/** The limit that forbids admitting a request now. */
export interface OverLimit {
  /**
   * The limit's name. `unknown`: the queue has restarted and does not know yet which requests its workers go on with.
   */
  limit: keyof RateLimits | 'unknown';
  most: number;
  /** The pattern of models that the limit holds for; null: all models. */
  models: string | null;
  /** The tenant whose budget the limit is; null: the token's own limit. */
  tenant: string | null;
  /** The epoch ms from which the request may be admitted; null: as soon as a running request ends. */
  opens_at: number | null;
}

type Found = Pick<OverLimit, 'limit' | 'most' | 'opens_at'>;

/** The usage of a token's limits, either those for all models or those of one pattern of models. */
export interface Scope {
  limits: RateLimits;
  requests: SlidingWindow;
  tokens: SlidingWindow;
  /** The usage of each budget since its day or month began. */
  budgets: Record<keyof Budgets, CalendarSum>;
  running: number;
  /** The tokens that running requests have reserved and not generated yet. */
  reserved: number;
}

export function newScope(limits: RateLimits, now: number): Scope {
  const budgets = BUDGETS.map((name) => [name, new CalendarSum(unitOf(name), now)]);
  return {
    limits,
    requests: new SlidingWindow(),
    tokens: new SlidingWindow(),
    budgets: Object.fromEntries(budgets) as Scope['budgets'],
    running: 0,
    reserved: 0,
  };
}

/** An amount to be counted; below 0, it corrects an amount that was too large. */
export interface Amounts {
  tokens: number;
  nanodollars: number;
}

/** Counts an amount. @param at epoch ms; for a negative amount, the time at which it was counted */
export function count({ tokens: window, budgets }: Scope, used: Amounts, at: number): void {
  window.add(at, used.tokens);
  for (const name of BUDGETS) budgets[name].add(at, amountOf(name, used));
}

/** The tokens that a running attempt has generated. */
export interface Come {
  /** The attempt's tokens that are counted, until its usage reports all of them. */
  come: number;
  /** The attempt's counted tokens of the last minute, by when they were counted. */
  counted: SlidingWindow;
}

/** Counts a running attempt's earlier tokens in a new scope. */
export function countCome({ tokens: window, budgets }: Scope, { come, counted }: Come, now: number): void {
  for (const name of BUDGETS) budgets[name].add(now, isMoney(name) ? 0 : come);
  for (const [second, amount] of counted.slots(now)) window.add(second * 1000, amount);
}

/**
 * Takes back a running attempt's tokens as its usage replaces them.
 * @param again the number of these tokens that the usage has just counted once more
 */
export function takeBackCome(scope: Scope, { come, counted }: Come, again: number, now: number): void {
  for (const name of BUDGETS) scope.budgets[name].add(now, isMoney(name) ? 0 : -come);
  scope.tokens.add(now, -again);
  takeBack(scope.tokens, counted.slots(now), come - again);
}

/** Takes back this amount from what was added in these seconds, the newest first. */
export function takeBack(window: SlidingWindow, slots: readonly WindowSlot[], amount: number): void {
  let left = amount;
  for (const [second, added] of slots.toReversed()) {
    const taken = Math.min(left, added);
    window.add(second * 1000, -taken);
    left -= taken;
  }
}

/** Returns the part of an amount that a budget counts. */
export function amountOf(budget: keyof Budgets, { tokens, nanodollars }: Amounts): number {
  return isMoney(budget) ? nanodollars : tokens;
}

/** Returns the usage of each limit in its own unit; that of tokens includes what running requests have reserved. */
export function usedOf(scope: Scope, now: number): Record<keyof RateLimits, number> {
  const { requests, tokens, budgets, running, reserved } = scope;
  const ofBudgets = BUDGETS.map((name) => {
    const sum = budgets[name].sum(now);
    return [name, isMoney(name) ? sum / NANODOLLARS : sum + reserved];
  });
  return {
    requests_per_minute: requests.sum(now),
    tokens_per_minute: tokens.sum(now) + reserved,
    ...(Object.fromEntries(ofBudgets) as Record<keyof Budgets, number>),
    running,
  };
}

/**
 * Returns the limit that forbids admitting a request that may cost this many tokens, or null.
 * @param isCounted whether the request counts here already
 */
export function overScope(scope: Scope, tokens: number, now: number, isCounted = false): Found | null {
  const { running, requests_per_minute, tokens_per_minute } = scope.limits;
  if (running !== undefined && scope.running >= running) {
    return { limit: 'running', most: running, opens_at: null };
  }
  const budget = overBudget(scope, scope.limits, now);
  if (budget !== null) return budget;
  if (tokens_per_minute !== undefined) {
    // A request that may cost more than a minute's tokens is admitted when no other tokens count.
    const room = tokens_per_minute - Math.min(tokens, tokens_per_minute);
    if (scope.tokens.sum(now) + scope.reserved > room) {
      const opens_at = scope.reserved > room ? null : scope.tokens.fallsTo(room - scope.reserved, now);
      return { limit: 'tokens_per_minute', most: tokens_per_minute, opens_at };
    }
  }
  if (isCounted || requests_per_minute === undefined) return null;
  if (scope.requests.sum(now) >= requests_per_minute) {
    const opens_at = scope.requests.fallsTo(requests_per_minute - 1, now);
    return { limit: 'requests_per_minute', most: requests_per_minute, opens_at };
  }
  return null;
}

/**
 * Returns the budget that is used up, or null. What the request itself may cost does not matter, so that a budget can
 * be used up: it is exceeded by no more than what running requests cost. Budgets of the month come first, since those
 * of the day reset sooner.
 */
export function overBudget({ budgets, reserved }: Scope, given: Budgets, now: number): Found | null {
  for (const limit of BUDGETS) {
    const budget = given[limit];
    if (budget === undefined) continue;
    const used = budgets[limit].sum(now);
    const most = isMoney(limit) ? budget * NANODOLLARS : budget;
    if (used >= most) return { limit, most: budget, opens_at: endOf(unitOf(limit), now) };
    if (!isMoney(limit) && used + reserved >= most) return { limit, most: budget, opens_at: null };
  }
  return null;
}

/**
 * Returns the limit of two that forbids the request for longer: one that opens when a running request ends, since
 * nobody knows when that is, or else the one that opens later.
 */
export function longer<Over extends Found>(one: Over | null, other: Over | null): Over | null {
  if (one === null || other === null) return one ?? other;
  if (one.opens_at === null) return one;
  return other.opens_at === null || other.opens_at > one.opens_at ? other : one;
}
