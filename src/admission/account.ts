import type { Budgets, Limits, RateLimits, RequestCost } from '../protocol/index.ts';
import { matchesPattern } from '../protocol/index.ts';
import {
  type Amounts,
  amountOf,
  type Come,
  count,
  countCome,
  longer,
  newScope,
  type OverLimit,
  overBudget,
  overScope,
  type Scope,
  takeBack,
  takeBackCome,
  usedOf,
} from './scope.ts';
import { BUDGETS, type CalendarUnit, SlidingWindow, unitOf, type WindowSlot } from './windows.ts';

/**
 * Counts what one token, or all of one tenant, has used and says what it may still use. The code is pure: its callers
 * pass the time.
 */

/** The facts about a request or a stored job that limits depend on. */
export interface Weighed extends RequestCost {
  id: string;
  /** The names that patterns of models are compared with: the requested model, and the pool. */
  names: readonly string[];
  /** True if the request is for an alias: it may come once more, for another model. */
  falls?: boolean;
}

/** The usage of the limits per minute of a token, or of one pattern of its models. */
export interface Rates {
  limits: RateLimits;
  requests: number;
  /** The tokens that are counted or reserved. */
  tokens: number;
  /** The epoch ms from which only reserved tokens and running requests still count. */
  requests_reset_at: number;
  tokens_reset_at: number;
}

/** The usage of all limits of a token, or of one pattern of its models. */
export interface Standing {
  /** The pattern; null: all models. */
  models: string | null;
  limits: RateLimits;
  used: Record<keyof RateLimits, number>;
}

/** The stored form of an account: its windows by pattern of models, where '' stands for all models. */
export type AccountState = Record<string, { requests: WindowSlot[]; tokens: WindowSlot[] }>;

/** A request or stored job that was admitted and has not ended. */
interface Running extends Weighed, Come {}

/** A request that may come once more is remembered as long as it counts, ms, and the newest so many alone. */
const COUNTS_MS = 60_000;
const MOST_REMEMBERED = 1000;

/** The pattern of the limits that hold for all models. */
const ALL = '';

/**
 * Reserves what a request may cost when it is admitted. Its tokens are counted as they are generated, first out of what
 * it has reserved and then beyond it, and its usage corrects the count when it ends. So the tokens counted within any
 * 60 s and the reserved ones never exceed the limit when a request is admitted, and running requests exceed the limit
 * by no more than what they cost beyond what they reserved.
 */
export class Account {
  #limits: Limits = {};
  readonly #scopes = new Map<string, Scope>();
  /** The entries of `#scopes`, as a list. */
  #all: readonly [pattern: string, scope: Scope][] = [];
  /** The requests and stored jobs that were admitted and have not ended, by id. */
  readonly #running = new Map<string, Running>();
  /** Where requests for aliases were counted, by id, the oldest first: with another model they count only elsewhere. */
  readonly #counted = new Map<string, { at: number; scopes: Set<Scope> }>();
  /** A number that rises whenever something other than the passing of time may have freed capacity. */
  freed = 0;

  constructor(limits: Limits, state: AccountState = {}, now = 0) {
    for (const [pattern, { requests, tokens }] of Object.entries(state)) {
      this.#scopes.set(pattern, {
        ...newScope({}, now),
        requests: new SlidingWindow(requests, now),
        tokens: new SlidingWindow(tokens, now),
      });
    }
    this.setLimits(limits, now);
  }

  get limits(): Limits {
    return this.#limits;
  }

  /** Replaces the limits. Earlier usage still counts; a new pattern counts only the requests that run. */
  setLimits(limits: Limits, now: number): void {
    const { models = {}, tenant: _, ...all } = limits;
    this.#limits = limits;
    this.freed += 1;
    const wanted = new Map<string, RateLimits>([[ALL, all], ...Object.entries(models)]);
    for (const pattern of this.#scopes.keys()) if (!wanted.has(pattern)) this.#scopes.delete(pattern);
    const fresh = new Set<Scope>();
    for (const [pattern, own] of wanted) {
      const known = this.#scopes.get(pattern);
      const scope = known ?? newScope(own, now);
      if (!known) fresh.add(scope);
      this.#scopes.set(pattern, Object.assign(scope, { limits: own, running: 0, reserved: 0 }));
    }
    this.#all = [...this.#scopes];
    for (const running of this.#running.values()) {
      this.#reserve(running, 1);
      for (const [, scope] of this.#matching(running.names))
        if (fresh.has(scope)) countCome(scope, running, now);
    }
  }

  /** The ids of requests and stored jobs that were admitted and have not ended. */
  get running(): string[] {
    return [...this.#running.keys()];
  }

  /**
   * Returns the limit that forbids admitting a request now, or null.
   * @param isCounted whether the request counts among those of the last minute already
   */
  over({ id, names, tokens }: Weighed, now: number, isCounted: boolean): OverLimit | null {
    let over: OverLimit | null = null;
    const counted = this.#countedIn(id, now);
    for (const [pattern, scope] of this.#matching(names)) {
      const found = overScope(scope, tokens, now, isCounted || counted?.has(scope));
      const models = pattern === ALL ? null : pattern;
      over = longer(over, found && { ...found, models, tenant: null });
    }
    return over;
  }

  /**
   * Returns which of these budgets is used up by all usage counted here, or null.
   * @param tenant the tenant whose account this is
   */
  overBudget(most: Budgets, tenant: string, now: number): OverLimit | null {
    const found = overBudget(this.#scopes.get(ALL)!, most, now);
    return found && { ...found, models: null, tenant };
  }

  /** Admits a request or stored job. @param at epoch ms of the request; null if it was counted before */
  admit(weighed: Weighed, at: number | null): void {
    if (this.#running.has(weighed.id)) return;
    const running = { ...weighed, come: 0, counted: new SlidingWindow() };
    this.#running.set(weighed.id, running);
    this.#reserve(running, 1);
    if (at === null) return;
    const counted = this.#countedIn(weighed.id, at) ?? new Set();
    for (const [, scope] of this.#matching(weighed.names)) {
      if (counted.has(scope)) continue;
      scope.requests.add(at, 1);
      counted.add(scope);
    }
    if (weighed.falls) this.#remember(weighed.id, at, counted);
  }

  #countedIn(id: string, now: number): Set<Scope> | undefined {
    const counted = this.#counted.get(id);
    return counted && now - counted.at < COUNTS_MS ? counted.scopes : undefined;
  }

  #remember(id: string, at: number, scopes: Set<Scope>): void {
    const since = this.#countedIn(id, at) === undefined ? at : this.#counted.get(id)!.at;
    this.#counted.delete(id);
    this.#counted.set(id, { at: since, scopes });
    const [oldest] = this.#counted.keys();
    if (this.#counted.size > MOST_REMEMBERED) this.#counted.delete(oldest!);
  }

  /** Counts the tokens that the attempt has generated by now. @param tokens their total */
  generated(id: string, tokens: number, now: number): void {
    const running = this.#running.get(id);
    if (!running || tokens <= running.come) return;
    const fresh = tokens - running.come;
    this.#change(running, () => {
      running.come = tokens;
    });
    running.counted.add(now, fresh);
    this.charge(running.names, ofTokens(fresh), now);
  }

  /**
   * Ends a request or stored job, whatever became of it. Of the tokens it generated, only those in its reported usage
   * still count.
   */
  end(id: string, now: number): void {
    this.#endAttempt(id, [], 0, now);
    const running = this.#running.get(id);
    if (!running) return;
    this.#running.delete(id);
    this.#reserve(running, -1);
  }

  /**
   * Charges an amount.
   * @param at epoch ms; for a negative amount, the time at which it was counted
   * @param id the request that ends with this charge; its tokens count from when they were generated, and not twice
   */
  charge(names: readonly string[], used: Amounts, at: number, id?: string): void {
    if (used.tokens < 0) this.freed += 1;
    const scopes = this.#matching(names);
    for (const [, scope] of scopes) count(scope, used, at);
    if (id !== undefined) this.#endAttempt(id, scopes, used.tokens, at);
  }

  /**
   * Ends the attempt, whose generated tokens now count as its usage or not at all.
   * @param told the scopes that have just counted its usage
   * @param tokens the tokens in that usage
   */
  #endAttempt(id: string, told: readonly (readonly [string, Scope])[], tokens: number, now: number): void {
    const running = this.#running.get(id);
    if (!running || running.come === 0) return;
    const again = Math.min(tokens, running.come);
    for (const entry of this.#matching(running.names))
      takeBackCome(entry[1], running, told.includes(entry) ? again : 0, now);
    this.#change(running, () => {
      running.come = 0;
      running.counted = new SlidingWindow();
    });
  }

  /**
   * Sets the earlier usage of the budgets of one unit, by requests that have ended.
   * @param used the usage since the day or the month began, with the names that patterns are compared with
   */
  setUsed(unit: CalendarUnit, used: readonly (Amounts & { names: readonly string[] })[], now: number): void {
    this.freed += 1;
    for (const [pattern, { budgets }] of this.#scopes) {
      const own = used.filter(({ names }) => pattern === ALL || fits(pattern, names));
      const all = [...own, ...this.#comeOf(pattern).map(({ come }) => ofTokens(come))];
      for (const name of BUDGETS) {
        const sum = all.reduce((sum, one) => sum + amountOf(name, one), 0);
        if (unitOf(name) === unit) budgets[name].set(now, sum);
      }
    }
  }

  /** Returns the usage by pattern of models; that of all models comes first. */
  standings(now: number): Standing[] {
    return [...this.#scopes].map(([pattern, scope]) => ({
      models: pattern === ALL ? null : pattern,
      limits: scope.limits,
      used: usedOf(scope, now),
    }));
  }

  /** Returns the usage of the limits that hold for these names. Every answer reports it to its caller. */
  rates(now: number, names: readonly string[]): Rates[] {
    return this.#matching(names).map(([, scope]) => ratesOf(scope, now));
  }

  /** Returns the stored form, without the tokens of running attempts: workers report those again. */
  state(now: number): AccountState {
    const states = [...this.#scopes].map(([pattern, { requests, tokens }]) => {
      const told = new SlidingWindow(tokens.slots(now), now);
      for (const { come, counted } of this.#comeOf(pattern)) takeBack(told, counted.slots(now), come);
      return [pattern, { requests: requests.slots(now), tokens: told.slots(now) }] as const;
    });
    return Object.fromEntries(states);
  }

  #comeOf(pattern: string): Come[] {
    const running = [...this.#running.values()];
    return running.filter(({ names, come }) => come > 0 && (pattern === ALL || fits(pattern, names)));
  }

  /** Changes the generated tokens of a running request, and with them what it still has reserved. */
  #change(running: Running, change: () => void): void {
    this.#reserve(running, -1);
    change();
    this.#reserve(running, 1);
  }

  #reserve({ names, tokens, come }: Running, sign: 1 | -1): void {
    if (sign < 0) this.freed += 1;
    for (const [, scope] of this.#matching(names)) {
      scope.running += sign;
      scope.reserved += sign * Math.max(0, tokens - come);
    }
  }

  #matching(names: readonly string[]): readonly [pattern: string, scope: Scope][] {
    // Most access tokens have limits for all models alone.
    if (this.#all.length === 1) return this.#all;
    return this.#all.filter(([pattern]) => pattern === ALL || fits(pattern, names));
  }
}

function ratesOf({ limits, requests, tokens, reserved }: Scope, now: number): Rates {
  return {
    limits,
    requests: requests.sum(now),
    tokens: tokens.sum(now) + reserved,
    requests_reset_at: requests.emptyAt(now),
    tokens_reset_at: tokens.emptyAt(now),
  };
}

function ofTokens(tokens: number): Amounts {
  return { tokens, nanodollars: 0 };
}

function fits(pattern: string, names: readonly string[]): boolean {
  return names.some((name) => matchesPattern(pattern, name));
}

/** Says whether a limit that forbids one request also forbids another with these names. */
export function isForbiddenBy(over: OverLimit, names: readonly string[]): boolean {
  return over.models === null || fits(over.models, names);
}
