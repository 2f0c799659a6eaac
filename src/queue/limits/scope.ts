import type { Budgets, RateLimits } from '../../protocol/index.ts';
import { BUDGETS, CalendarSum, endOf, isMoney, NANO, unitOf } from './calendar-sum.ts';
import { SlidingWindow, type WindowSlot } from './sliding-window.ts';

/** Why something is not let in now. */
export interface OverLimit {
  /** `unknown`: the queue has started again and does not know yet what workers go on with. */
  limit: keyof RateLimits | 'unknown';
  most: number;
  /** The pattern of models that the limit is of; null: it is of all. */
  models: string | null;
  /** The tenant whose budget it is; null: it is the token's own limit. */
  tenant: string | null;
  /** Epoch ms from which on it may be let in; null: as soon as something that runs ends. */
  opens_at: number | null;
}

type Found = Pick<OverLimit, 'limit' | 'most' | 'opens_at'>;

/** What was used of limits of one kind, all of a token's or those of one pattern of its models. */
export interface Scope {
  limits: RateLimits;
  requests: SlidingWindow;
  tokens: SlidingWindow;
  /** Since the day or the month of each budget began. */
  budgets: Record<keyof Budgets, CalendarSum>;
  running: number;
  /** Tokens. */
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

/** What is counted; less than 0: so much was counted too much. */
export interface Amounts {
  tokens: number;
  nanodollars: number;
}

/** @param at epoch ms; of what is less than 0 that at which it was counted */
export function count({ tokens: window, budgets }: Scope, used: Amounts, at: number): void {
  window.add(at, used.tokens);
  for (const name of BUDGETS) budgets[name].add(at, amountOf(name, used));
}

/** What has come of an attempt that runs. */
export interface Come {
  /** Tokens of it that are counted, until its usage tells all of them. */
  come: number;
  /** Those of the last minute, by when they were counted. */
  counted: SlidingWindow;
}

/** A new scope counts what has come before. */
export function countCome({ tokens: window, budgets }: Scope, { come, counted }: Come, now: number): void {
  for (const name of BUDGETS) budgets[name].add(now, isMoney(name) ? 0 : come);
  for (const [second, amount] of counted.slots(now)) window.add(second * 1000, amount);
}

/** @param again so many of these tokens were counted once more now, with its usage */
export function takeBackCome(scope: Scope, { come, counted }: Come, again: number, now: number): void {
  for (const name of BUDGETS) scope.budgets[name].add(now, isMoney(name) ? 0 : -come);
  scope.tokens.add(now, -again);
  takeBack(scope.tokens, counted.slots(now), come - again);
}

/** Takes back so much of what was added in these seconds, the newest first. */
export function takeBack(window: SlidingWindow, slots: readonly WindowSlot[], amount: number): void {
  let left = amount;
  for (const [second, added] of slots.toReversed()) {
    const taken = Math.min(left, added);
    window.add(second * 1000, -taken);
    left -= taken;
  }
}

/** Of what was used that which a budget is of. */
export function amountOf(budget: keyof Budgets, { tokens, nanodollars }: Amounts): number {
  return isMoney(budget) ? nanodollars : tokens;
}

/** What was used of each budget in its own unit, with what those that run have reserved, which is tokens alone. */
export function usedOf({ budgets, reserved }: Scope, now: number): Record<keyof Budgets, number> {
  const used = BUDGETS.map((name) => {
    const sum = budgets[name].sum(now);
    return [name, isMoney(name) ? sum / NANO : sum + reserved];
  });
  return Object.fromEntries(used) as Record<keyof Budgets, number>;
}

/** What keeps a request that may cost so many tokens from being let in now; null: nothing does. */
export function overScope(scope: Scope, tokens: number, now: number): Found | null {
  const { running, requests_per_minute, tokens_per_minute } = scope.limits;
  if (running !== undefined && scope.running >= running) {
    return { limit: 'running', most: running, opens_at: null };
  }
  const budget = overBudget(scope, scope.limits, now);
  if (budget !== null) return budget;
  if (tokens_per_minute !== undefined) {
    // One that may cost more than a minute has is let in when nothing else is.
    const room = tokens_per_minute - Math.min(tokens, tokens_per_minute);
    if (scope.tokens.sum(now) + scope.reserved > room) {
      const opens_at = scope.reserved > room ? null : scope.tokens.fallsTo(room - scope.reserved, now);
      return { limit: 'tokens_per_minute', most: tokens_per_minute, opens_at };
    }
  }
  if (requests_per_minute !== undefined && scope.requests.sum(now) >= requests_per_minute) {
    const opens_at = scope.requests.fallsTo(requests_per_minute - 1, now);
    return { limit: 'requests_per_minute', most: requests_per_minute, opens_at };
  }
  return null;
}

/**
 * Whatever the request itself may cost, so that a budget can be used up: it is exceeded by no more than that of those
 * that run. Those of the month first: that of the day opens sooner.
 */
export function overBudget({ budgets, reserved }: Scope, given: Budgets, now: number): Found | null {
  for (const limit of BUDGETS) {
    const budget = given[limit];
    if (budget === undefined) continue;
    const used = budgets[limit].sum(now);
    const most = isMoney(limit) ? budget * NANO : budget;
    if (used >= most) return { limit, most: budget, opens_at: endOf(unitOf(limit), now) };
    if (!isMoney(limit) && used + reserved >= most) return { limit, most: budget, opens_at: null };
  }
  return null;
}

/** Of two the one that keeps it longer. Of what runs nobody knows when it ends. */
export function longer<Over extends Found>(one: Over | null, other: Over | null): Over | null {
  if (one === null || other === null) return one ?? other;
  if (one.opens_at === null) return one;
  return other.opens_at === null || other.opens_at > one.opens_at ? other : one;
}
