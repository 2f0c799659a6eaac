import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  PER_TOKEN_BOUNDS,
  PREFIX_MATCH_BOUNDS,
  QUEUE_WAIT_BOUNDS,
  RELEASE_REASONS,
} from '../../protocol/index.ts';

/** Modes of a job: `waiting` has a caller that waits on a connection, `stored` is a row. */
export const MODES = ['waiting', 'stored'] as const;

/** The outcomes of a job; `rejected`: it was not admitted, or found no worker while its caller waited. */
export const OUTCOMES = ['succeeded', 'failed', 'cancelled', 'expired', 'rejected'] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** The results of an attempt. */
const ATTEMPT_RESULTS = ['succeeded', 'failed', 'lease_expired', 'released', 'cancelled', 'expired'] as const;

/** The reasons for giving an attempt back without blame: a worker's own, or `returned` if the queue took it back. */
const RELEASES = [...RELEASE_REASONS, 'returned'] as const;

/**
 * Kinds of tokens: `cached_input` is part of `input`, `reasoning` of `output`; `wasted`: by attempts that did not
 * count.
 */
const TOKEN_KINDS = ['input', 'output', 'cached_input', 'reasoning', 'wasted'] as const;

const PREFIX_HITS = ['predicted', 'seen'] as const;

/** The time for which slots of a pool were held for one tenant, and its cost, counted as for usage. */
export interface TenantCost {
  tenant: string;
  slot_ms: number;
  /** The part of `slot_ms` that was at workers whose price is not known. */
  unpriced_slot_ms: number;
  /** The price of the rest of `slot_ms`. */
  nanodollars: number;
}

/** The counts of all that happened to one pool's jobs since the pool was first counted. */
export type PoolCounts = ReturnType<typeof newCounts>;

export function newCounts() {
  return {
    submitted: zeros(MODES),
    /** Submitted jobs that give way to all others: their priority is below zero, as that of lines of batches. */
    submitted_in_background: 0,
    settled: { waiting: zeros(OUTCOMES), stored: zeros(OUTCOMES) },
    /** Rejected jobs that wanted a worker or a slot. */
    turned_away: 0,
    /** Ended jobs to which an attempt before their last was charged. */
    retried: 0,
    dispatches: 0,
    attempts: zeros(ATTEMPT_RESULTS),
    releases: zeros(RELEASES),
    /** Settlements that were refused since the job had gone to another attempt. */
    fence_refusals: 0,
    tokens: zeros(TOKEN_KINDS),
    /** Costs by tenant; tenants beyond a number have one entry together. */
    cost: [] as TenantCost[],
    /**
     * Prompt tokens, of jobs that succeeded, that the engine had computed before: as the queue predicted when it chose
     * the worker, and as the engine reported.
     */
    prefix_hits: zeros(PREFIX_HITS),
    /** The share of its prompt, 0 to 1, that each of these jobs was expected to find at the chosen worker. */
    prefix_match: newHistogram(PREFIX_MATCH_BOUNDS),
    /** Slots of the worker that registered last, from which the number of wanted workers follows; null if none has. */
    slots_per_worker: null as number | null,
    /** Jobs whose engine did not count their tokens to the end. */
    estimated: 0,
    /** Time from submission to the first dispatch. */
    queue_wait: newHistogram(QUEUE_WAIT_BOUNDS),
    /** Time from submission to the first token of a streamed answer. */
    first_token: newHistogram(FIRST_TOKEN_BOUNDS),
    /** Time from submission to the first token, for callers that waited for it on their connection. */
    live_first_token: newHistogram(FIRST_TOKEN_BOUNDS),
    /** Time between two tokens of a streamed answer, as the mean of the answer. */
    per_token: newHistogram(PER_TOKEN_BOUNDS),
    /** Time from submission to success. */
    duration: newHistogram(DURATION_BOUNDS),
    /** Time from dispatch to success. */
    run: newHistogram(DURATION_BOUNDS),
  };
}

function zeros<K extends string>(keys: readonly K[]): Record<K, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<K, number>;
}

/**
 * A histogram as it is stored: the number of values up to each bound and above the bound before, last those above all.
 */
export interface Histogram {
  counts: number[];
  /** The sum of all values, in the unit of the bounds. */
  sum: number;
}

function newHistogram(bounds: readonly number[]): Histogram {
  return { counts: new Array(bounds.length + 1).fill(0), sum: 0 };
}

/** Adds a time to a histogram of seconds. @param ms counts as 0 if below 0, which clocks that are set back cause */
export function observeMs(histogram: Histogram, bounds: readonly number[], ms: number): void {
  observe(histogram, bounds, Math.max(0, ms) / 1000);
}

/** Adds a value. @param value in the unit of the bounds */
export function observe(histogram: Histogram, bounds: readonly number[], value: number): void {
  let at = 0;
  while (at < bounds.length && value > bounds[at]!) at += 1;
  histogram.counts[at]! += 1;
  histogram.sum += value;
}

/** Returns the number of values up to each bound, and last of all values; empty if there are none. */
export function cumulative({ counts }: Histogram): number[] {
  let all = 0;
  const sums = counts.map((count) => (all += count));
  return all === 0 ? [] : sums;
}
