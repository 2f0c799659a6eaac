import type { Budgets, Limits, RateLimits } from '../../protocol/index.ts';
import { matchesPattern } from '../../protocol/index.ts';
import { BUDGETS, type CalendarUnit, unitOf } from './calendar-sum.ts';
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
import { SlidingWindow, type WindowSlot } from './sliding-window.ts';

/** What one token, or all of one tenant, has used and may use. Pure: time is given. */

/** A request or a stored job, as limits look at it. */
export interface Weighed {
  id: string;
  /** Names that patterns of models are compared with: the model that is asked for, and the pool. */
  names: readonly string[];
  /** Tokens that it may cost at most, as far as can be told before it runs. */
  tokens: number;
}

/** How the limits a minute of a token, or of one pattern of its models, stand. */
export interface Rates {
  limits: RateLimits;
  requests: number;
  /** Counted and reserved. */
  tokens: number;
  /** Epoch ms from which on nothing counts any more but what runs. */
  requests_reset_at: number;
  tokens_reset_at: number;
}

/** The same of all its limits. */
export interface Standing extends Rates {
  models: string | null;
  /** Since the day or the month of each began, in tokens with what is reserved, in US dollars without. */
  budgets: Record<keyof Budgets, number>;
  running: number;
}

/** As it is stored: by pattern of models, '' for all of them. */
export type AccountState = Record<string, { requests: WindowSlot[]; tokens: WindowSlot[] }>;

/** Something that is let in. */
interface Running extends Weighed, Come {}

/** Of all models. */
const ALL = '';

/**
 * A request reserves what it may cost when it is let in. Its tokens are counted as they come, out of what it has
 * reserved and then beyond it, and its usage puts that right when it ends. So what was counted within any 60 s and what
 * is reserved are never more than the limit together, and a limit is exceeded by no more than what those that run cost
 * beyond what they reserved.
 */
export class Account {
  #limits: Limits = {};
  readonly #scopes = new Map<string, Scope>();
  /** The same as a list. */
  #all: readonly [pattern: string, scope: Scope][] = [];
  /** What is let in and has not ended, by id. */
  readonly #running = new Map<string, Running>();
  /** Rises whenever there may be more room than before, but for time that goes by. */
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

  /** What was used before counts on; of a new pattern only what runs does. */
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

  /** Ids of those that are let in and have not ended. */
  get running(): string[] {
    return [...this.#running.keys()];
  }

  /** What keeps it from being let in now; null: nothing does. */
  over({ names, tokens }: Omit<Weighed, 'id'>, now: number): OverLimit | null {
    let over: OverLimit | null = null;
    for (const [pattern, scope] of this.#matching(names)) {
      const found = overScope(scope, tokens, now);
      const models = pattern === ALL ? null : pattern;
      over = longer(over, found && { ...found, models, tenant: null });
    }
    return over;
  }

  /** Which of these budgets is used up, by all that is counted here; null: none is. @param tenant whose account it is */
  overBudget(most: Budgets, tenant: string, now: number): OverLimit | null {
    const found = overBudget(this.#scopes.get(ALL)!, most, now);
    return found && { ...found, models: null, tenant };
  }

  /** Lets it in. @param at epoch ms of the request; null: it was counted before */
  letIn(weighed: Weighed, at: number | null): void {
    if (this.#running.has(weighed.id)) return;
    const running = { ...weighed, come: 0, counted: new SlidingWindow() };
    this.#running.set(weighed.id, running);
    this.#reserve(running, 1);
    if (at === null) return;
    for (const [, scope] of this.#matching(weighed.names)) scope.requests.add(at, 1);
  }

  /** So many tokens of its attempt have come by now. */
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

  /** It is over, whatever became of it: of what had come only what its usage told counts. */
  end(id: string, now: number): void {
    this.#endAttempt(id, [], 0, now);
    const running = this.#running.get(id);
    if (!running) return;
    this.#running.delete(id);
    this.#reserve(running, -1);
  }

  /**
   * @param at epoch ms; of what is less than 0 that at which it was counted
   * @param id what ends with this; what had come of it counts from when it came, and not once more
   */
  charge(names: readonly string[], used: Amounts, at: number, id?: string): void {
    if (used.tokens < 0) this.freed += 1;
    const scopes = this.#matching(names);
    for (const [, scope] of scopes) count(scope, used, at);
    if (id !== undefined) this.#endAttempt(id, scopes, used.tokens, at);
  }

  /** @param told scopes that have counted its usage now, of so many `tokens` */
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
   * What was used of its budgets before, as far as it has ended.
   * @param used since the day or the month began, by the names that patterns are compared with
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

  /** All of them first. */
  standings(now: number): Standing[] {
    return [...this.#scopes].map(([pattern, scope]) => ({
      ...ratesOf(scope, now),
      models: pattern === ALL ? null : pattern,
      budgets: usedOf(scope, now),
      running: scope.running,
    }));
  }

  /** Of those whose limits hold for these names. Every answer is told them. */
  rates(now: number, names: readonly string[]): Rates[] {
    return this.#matching(names).map(([, scope]) => ratesOf(scope, now));
  }

  /** Without what has come of those that run: workers tell that again. */
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

  /** Changes what has come of one that runs, and with it what it still has reserved. */
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
    // Most tokens have limits of all models alone.
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

/** Whether what keeps one from being let in keeps another one too. */
export function isKeptBy(over: OverLimit, names: readonly string[]): boolean {
  return over.models === null || fits(over.models, names);
}
