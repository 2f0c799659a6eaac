import { doubling } from '../../process/backoff.ts';
import { failureAndCause } from '../../protocol/scaling.ts';
import { isFinal, type Launch } from '../launch.ts';
import type { LearnedMachine, ObservedPool, ObservedProvider } from '../rule-types.ts';
import type { CandidateSpec } from '../spec.ts';
import { classifiedAt, consecutiveFailures, delayAfter, type FailureClass } from './breaker.ts';
import { startSeconds } from './capacity.ts';
import { lostShare, type Rest, restOf, type SpotRule } from './spot.ts';

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
  /** Whether somebody has told the price; otherwise it counts as nothing. */
  isPriceKnown: boolean;
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

/** @param version the version that would be launched: refusals of others say nothing about it */
export function candidatesOf(pool: ObservedPool, market: Market, version: string | null): Candidate[] {
  const all = pool.spec.machines
    .map((machine) => candidate(machine, pool, market, version))
    .sort(byPricePerToken);
  const rank = rankOfSpot(all);
  return all.sort((one, other) => rank(one) - rank(other));
}

/**
 * Returns how candidates are ranked if some are spot machines: these come first, except those that are dearer than an
 * on-demand one once their losses count.
 */
function rankOfSpot(candidates: readonly Candidate[]): (candidate: Candidate) => number {
  const onDemand = candidates.filter(({ machine }) => !machine.spot);
  return (one) => {
    if (!one.machine.spot) return 1;
    return onDemand.some((other) => isCheaper(other, one)) ? 2 : 0;
  };
}

/** Returns whether one candidate is known to be cheaper than another, by at least this factor. */
function isCheaper(one: Candidate, other: Candidate, factor = 1): boolean {
  const [costOne, costOther] = costsOf(one, other);
  return one.isPriceKnown && costOne < costOther * factor;
}

/** Returns what two candidates cost: per token if both speeds were measured, else an hour. */
function costsOf(one: Candidate, other: Candidate): [number, number] {
  const perToken = ({ learned }: Candidate) => learned.dollars_per_million_tokens;
  const [first, second] = [perToken(one), perToken(other)];
  if (first !== null && second !== null) return [first, second];
  return [pricePerHour(one), pricePerHour(other)];
}

/** With what the lost share costs. */
function pricePerHour({ learned: { price_per_hour, lost_share } }: Candidate): number {
  return price_per_hour / (1 - lost_share);
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
  version: string | null,
): Candidate {
  const { provider, instance_type } = machine;
  const offered = providers.find(({ name }) => name === provider);
  // Providers report the price of one GPU.
  const price = machine.price_per_hour ?? (offered?.prices[instance_type] ?? 0) * Math.max(1, machine.gpus);
  const is_spot = machine.spot ?? false;
  const ofAnyKind = launches.filter(
    (launch) => launch.provider === provider && launch.instance_type === instance_type,
  );
  const ofType = ofAnyKind.filter((launch) => launch.is_spot === is_spot);
  const isOfPool = ({ config_id }: Launch) => config_id === pool.config_id;
  const start = startSeconds(ofAnyKind.filter(isOfPool));
  const lost_share = lostShare(ofType.filter(isOfPool), start.p50, now);
  const rest = is_spot ? restOf(ofType) : null;
  const speed = tokensPerSecond[learnedKey(pool.config_id, machine)] ?? null;
  const refused = consecutiveFailures(ofType, pool.forgiven_at, now, (found) => found === 'no_capacity');
  const bad = consecutiveFailures(
    ofType.filter((launch) => launch.cause !== 'rejected' || launch.version === version),
    pool.forgiven_at,
    now,
    (found) => found === 'machine' || found === 'refused',
  );
  const noPlace = full(offered, taken);
  const skip =
    (offered?.is_fresh ? null : unanswered(provider)) ??
    noPlace ??
    (hasBudget ? unpriced(machine, offered) : null) ??
    backOff(bad, delayBad, now) ??
    backOff(refused, delaySoldOut, now) ??
    resting(rest, now);
  return {
    machine,
    isSoldOut: skip?.failureClass === 'no_capacity',
    isPriceKnown: !isUnpriced(machine, offered),
    isFull: noPlace !== null && skip === noPlace,
    refusals: {
      at: Math.max(refused[0] ? classifiedAt(refused[0]) : 0, rest?.at ?? 0),
      count: Math.max(refused.length, rest?.count ?? 0),
    },
    learned: {
      provider,
      instance_type,
      is_spot,
      price_per_hour: price,
      lost_share,
      start,
      tokens_per_second: speed,
      dollars_per_million_tokens: speed ? (price / ((1 - lost_share) * speed * 3600)) * 1e6 : null,
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

function isUnpriced(
  { instance_type, price_per_hour }: Pick<CandidateSpec, 'instance_type' | 'price_per_hour'>,
  provider: ObservedProvider | undefined,
): provider is ObservedProvider {
  if (!provider?.tells_prices || price_per_hour !== undefined) return false;
  return provider.prices[instance_type] === undefined;
}

/** Returns why a machine without a price is skipped: it would count as free, and be launched beyond any budget. */
function unpriced(
  { instance_type, price_per_hour }: CandidateSpec,
  provider: ObservedProvider | undefined,
): Skip | null {
  if (!isUnpriced({ instance_type, price_per_hour }, provider)) return null;
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

/** A resting spot machine is as good as sold out: it is tried if all others are skipped too. */
function resting(rest: Rest | null, now: number): Skip | null {
  if (!rest || now >= rest.until) return null;
  const why = `it was taken back ${rest.count} times in a row, so no spot machine of this type is launched for a while`;
  return { why, until: rest.until, failureClass: 'no_capacity' };
}

/** The candidate to launch now, or why there is none. */
export type Choice =
  | { kind: 'chosen'; candidate: Candidate; is_stand_in: boolean }
  | { kind: 'none'; why: string; until: number | null };

/** Returns the first candidate that is not skipped. If all are sold out, they are tried again sooner. */
export function choose(candidates: readonly Candidate[], now: number): Choice {
  const free = candidates.find(({ learned }) => learned.skipped_because === null);
  if (free) return chosen(free);
  const [first] = candidates;
  const soldOut = candidates.filter(({ isSoldOut }) => isSoldOut);
  if (soldOut.length === 0) {
    return { kind: 'none', why: first?.learned.skipped_because ?? 'it has no machines', until: null };
  }
  const askedAgainAt = ({ refusals: { at, count } }: Candidate) =>
    at + doubling(ROUND_MS, LONGEST_ROUND_MS, count);
  const [next] = soldOut.sort((one, other) => askedAgainAt(one) - askedAgainAt(other));
  if (next && now >= askedAgainAt(next)) return chosen(next);
  const until = next ? askedAgainAt(next) : null;
  return { kind: 'none', why: 'every provider has none of its machines free', until };
}

function chosen(candidate: Candidate): Choice {
  return { kind: 'chosen', candidate, is_stand_in: false };
}

/** Another provider is preferred to one that has all of a pool's workers, up to this factor of the price. */
const SPREAD_FACTOR = 1.3;

/**
 * Returns the candidate to launch next for a pool that may use spot machines: on-demand ones until there are as many as
 * its base, then the cheapest; an on-demand one in place of a spot machine stands in for it. A pool is not put all at
 * one provider if another one is hardly dearer.
 * @param staying the pool's workers that serve or start, with those that are decided already
 */
export function chooseMixed(
  candidates: readonly Candidate[],
  { base }: SpotRule,
  staying: readonly { provider: string; is_spot: boolean }[],
  now: number,
): Choice {
  const isBase = staying.filter(({ is_spot }) => !is_spot).length < base;
  const isOnDemand = ({ machine }: Candidate) => !machine.spot;
  const ordered = isBase
    ? candidates.toSorted((one, other) => Number(isOnDemand(other)) - Number(isOnDemand(one)))
    : candidates;
  const choice = choose(ordered, now);
  if (choice.kind === 'none') return choice;
  const first = choice.candidate;
  const isAllAt = staying.length > 0 && staying.every(({ provider }) => provider === first.machine.provider);
  const isElsewhere = (other: Candidate) =>
    other.learned.skipped_because === null &&
    other.machine.provider !== first.machine.provider &&
    (!isBase || isOnDemand(other)) &&
    isCheaper(other, first, SPREAD_FACTOR);
  const candidate = (isAllAt ? ordered.find(isElsewhere) : undefined) ?? first;
  const is_stand_in =
    !isBase &&
    isOnDemand(first) &&
    isOnDemand(candidate) &&
    ordered.slice(0, ordered.indexOf(first)).some((preferred) => !isOnDemand(preferred));
  return { kind: 'chosen', candidate, is_stand_in };
}

/** A launch requires a daily budget that pays for all machines and itself for this many ms more. */
const LAUNCH_RESERVE_MS = 30 * 60_000;
/** Every worker begins to drain this many ms before the daily budget is spent. */
const DRAIN_RESERVE_MS = 5 * 60_000;
const HOUR_MS = 3_600_000;

type Limit = 'hour' | 'day';

/** The remaining budget, which each decided launch reduces. */
export class Budget {
  /** The price of everything that is not known to have ended, US dollars an hour. */
  perHour: number;
  /** The limit that prevented a launch that is needed; null: none did. */
  stoppedBy: Limit | null = null;
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

  /** Takes a launch's price off the budget. @returns the limit that forbids it; null: none, and the price is taken */
  take(pricePerHour: number): Limit | null {
    const { per_hour, per_day } = this.#limits;
    const after = this.perHour + pricePerHour;
    if (per_hour !== undefined && after > per_hour + 1e-9) return 'hour';
    if (per_day !== undefined && this.#spentIn(LAUNCH_RESERVE_MS, after) > per_day) return 'day';
    this.perHour = after;
    return null;
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

  inWords(limit: Limit | null): string {
    const { per_hour, per_day } = this.#limits;
    if (limit === 'hour') {
      return `the budget of $${per_hour} an hour is reached: $${this.perHour.toFixed(2)} an hour run`;
    }
    return `the budget of $${per_day} a day is reached: $${this.#spentToday.toFixed(2)} are spent today`;
  }
}
