import { doubling } from '../../process/backoff.ts';
import { failureAndCause } from '../../protocol/scaling.ts';
import { isFinal, type Launch } from '../launch.ts';
import type { LearnedMachine, ObservedPool, ObservedProvider } from '../rule-types.ts';
import type { CandidateSpec } from '../spec.ts';
import { classifiedAt, consecutiveFailures, delayAfter, type FailureClass } from './breaker.ts';
import { startSeconds } from './capacity.ts';

/** A sold-out instance type is skipped for this many ms, doubled each time. */
const SOLD_OUT_MS = 15 * 60_000;
const LONGEST_SOLD_OUT_MS = 4 * 3_600_000;
/** When all instance types are sold out, they are tried again after this many ms, doubled each round. */
const ROUND_MS = 30_000;
const LONGEST_ROUND_MS = 10 * 60_000;
/** An instance type with this many consecutive failures is tried once an hour only. */
const BAD_AFTER = 5;
const BAD_MS = 3_600_000;

/** One instance type for a pool, with what the scheduler has learnt about it. */
export interface Candidate {
  machine: CandidateSpec;
  learned: LearnedMachine;
  /**
   * Whether the instance type is skipped only for being sold out; it is tried anyway if every other one is skipped too.
   */
  isSoldOut: boolean;
  /** Whether the provider has as many machines as the file allows. */
  isFull: boolean;
  /** When the provider last answered that the instance type is sold out, and how many times consecutively. */
  refusals: { at: number; count: number };
}

/** The facts that all candidates of a decision share. */
export interface Market {
  providers: ObservedProvider[];
  launches: Launch[];
  /** Tokens a second of one worker, by `learnedKey`. */
  tokensPerSecond: Record<string, number>;
  /** The number of machines at each provider that are not known to have ended, including launches decided now. */
  taken: Map<string, number>;
  /** Whether a budget limits launches, so that their prices have to be known. */
  hasBudget: boolean;
  now: number;
}

export function candidatesOf(pool: ObservedPool, market: Market): Candidate[] {
  return pool.spec.machines.map((machine) => candidate(machine, pool, market)).sort(byPricePerToken);
}

/** Compares candidates: measured ones come first, the cheapest per token first; the others stay in the spec's order. */
function byPricePerToken(one: Candidate, other: Candidate): number {
  const cost = ({ learned }: Candidate) => learned.dollars_per_million_tokens ?? Number.POSITIVE_INFINITY;
  return cost(one) === cost(other) ? 0 : cost(one) - cost(other);
}

export function learnedKey(
  configId: string,
  { provider, instance_type }: { provider: string; instance_type: string },
): string {
  return `${configId}/${provider}/${instance_type}`;
}

function candidate(
  machine: CandidateSpec,
  pool: ObservedPool,
  { providers, launches, tokensPerSecond, taken, hasBudget, now }: Market,
): Candidate {
  const { provider, instance_type } = machine;
  const offered = providers.find(({ name }) => name === provider);
  // Providers report the price of one GPU.
  const price = machine.price_per_hour ?? (offered?.prices[instance_type] ?? 0) * Math.max(1, machine.gpus);
  const ofType = launches.filter(
    (launch) => launch.provider === provider && launch.instance_type === instance_type,
  );
  const ofPool = ofType.filter(({ config_id }) => config_id === pool.config_id);
  const speed = tokensPerSecond[learnedKey(pool.config_id, machine)] ?? null;
  const refused = consecutiveFailures(ofType, pool.forgiven_at, now, (found) => found === 'no_capacity');
  const bad = consecutiveFailures(ofType, pool.forgiven_at, now, (found) => found === 'machine');
  const noPlace = full(offered, taken);
  const skip =
    (offered?.is_fresh ? null : unanswered(provider)) ??
    noPlace ??
    (hasBudget ? unpriced(machine, offered) : null) ??
    backOff(bad, delayBad, now) ??
    backOff(refused, delaySoldOut, now);
  return {
    machine,
    isSoldOut: skip?.failureClass === 'no_capacity',
    isFull: noPlace !== null && skip === noPlace,
    refusals: { at: refused[0] ? classifiedAt(refused[0]) : 0, count: refused.length },
    learned: {
      provider,
      instance_type,
      price_per_hour: price,
      start: startSeconds(ofPool),
      tokens_per_second: speed,
      dollars_per_million_tokens: speed ? (price / (speed * 3600)) * 1e6 : null,
      skipped_until: skip?.until ?? null,
      skipped_because: skip?.why ?? null,
    },
  };
}

interface Skip {
  why: string;
  /** Until when the candidate is skipped, epoch ms; null: that is unknown. */
  until: number | null;
  failureClass: FailureClass | null;
}

function unanswered(provider: string): Skip {
  return { why: `no launcher has a fresh list of provider ${provider}`, until: null, failureClass: null };
}

function full(provider: ObservedProvider | undefined, taken: Map<string, number>): Skip | null {
  if (!provider || provider.max === null || (taken.get(provider.name) ?? 0) < provider.max) return null;
  return {
    why: `provider ${provider.name} has its ${provider.max} machines already`,
    until: null,
    failureClass: null,
  };
}

/** Returns why a machine without a price is skipped: it would count as free, and be launched beyond any budget. */
function unpriced(
  { instance_type, price_per_hour }: CandidateSpec,
  provider: ObservedProvider | undefined,
): Skip | null {
  if (!provider?.tells_prices || price_per_hour !== undefined || provider.prices[instance_type] !== undefined)
    return null;
  return {
    why: `provider ${provider.name} has not told the price of ${instance_type} yet, which the budget has to pay for: price_per_hour of the machine may say it`,
    until: null,
    failureClass: null,
  };
}

const delayBad = (failures: number) => (failures >= BAD_AFTER ? BAD_MS : delayAfter(failures));
const delaySoldOut = (failures: number) => doubling(SOLD_OUT_MS, LONGEST_SOLD_OUT_MS, failures);

function backOff(failed: Launch[], delayMs: (failures: number) => number, now: number): Skip | null {
  const [newest] = failed;
  if (!newest) return null;
  const until = classifiedAt(newest) + delayMs(failed.length);
  if (now >= until) return null;
  return {
    why: failureAndCause(newest),
    until,
    failureClass: newest.cause === 'no_capacity' ? 'no_capacity' : 'machine',
  };
}

/** The candidate to launch now, or why there is none. */
export type Choice =
  | { kind: 'chosen'; candidate: Candidate }
  | { kind: 'none'; why: string; until: number | null };

/** Returns the first candidate that is not skipped. If all are sold out, they are tried again sooner. */
export function choose(candidates: Candidate[], now: number): Choice {
  const free = candidates.find(({ learned }) => learned.skipped_because === null);
  if (free) return { kind: 'chosen', candidate: free };
  const [first] = candidates;
  const soldOut = candidates.filter(({ isSoldOut }) => isSoldOut);
  if (soldOut.length === 0) {
    return { kind: 'none', why: first?.learned.skipped_because ?? 'it has no machines', until: null };
  }
  const askedAgainAt = ({ refusals: { at, count } }: Candidate) =>
    at + doubling(ROUND_MS, LONGEST_ROUND_MS, count);
  const [next] = soldOut.sort((one, other) => askedAgainAt(one) - askedAgainAt(other));
  if (next && now >= askedAgainAt(next)) return { kind: 'chosen', candidate: next };
  const until = next ? askedAgainAt(next) : null;
  return { kind: 'none', why: 'every provider has none of its machines free', until };
}

/** A launch requires a daily budget that pays for all machines and itself for this many ms more. */
const LAUNCH_RESERVE_MS = 30 * 60_000;
/** Every worker begins to drain this many ms before the daily budget is spent. */
const DRAIN_RESERVE_MS = 5 * 60_000;
const HOUR_MS = 3_600_000;

/** The remaining budget, which each decided launch reduces. */
export class Budget {
  /** The price of everything that is not known to have ended, US dollars an hour. */
  perHour: number;
  /** The limit that prevented a launch; null: none did. */
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

  /** Takes a launch's price off the budget. @returns false if a limit forbids it; `stoppedBy` then names the limit */
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

  /** Whether the daily budget is used up, which drains every worker. */
  get isSpent(): boolean {
    const { per_day } = this.#limits;
    if (per_day === undefined || this.perHour === 0) return false;
    if (this.#spentIn(DRAIN_RESERVE_MS, this.perHour) <= per_day) return false;
    this.stoppedBy = 'day';
    return true;
  }

  /** Returns today's cost `ms` from now. */
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
