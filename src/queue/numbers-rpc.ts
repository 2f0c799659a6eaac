import type { PoolCounts } from './projections/pool-counts.ts';

/** The numbers of a queue, for machines: `GET /metrics` and `GET /api/scale`. */
export interface QueueMetrics {
  /** The time by the queue's clock, epoch ms. */
  at: number;
  /** The size of the object's database, bytes. */
  storage_bytes: number;
  /** The numbers of the relays that the queue's object holds; null: each relay has an object of its own. */
  relays: RelayMetrics | null;
  pools: PoolMetrics[];
  mirrors: MirrorCount[];
  fall_backs: FallBackCount[];
}

/** The requests for an alias that ended at another model than its first choice, since the object started. */
export interface FallBackCount {
  alias: string;
  /** Why they went on to that model. */
  cause: string;
  requests: number;
}

/** The copies of requests for an alias that went to its mirror's model, since the object started. */
export interface MirrorCount {
  alias: string;
  model: string;
  succeeded: number;
  failed: number;
  /** The copies for which no worker was free, and those too long to be stored. */
  dropped: number;
}

export interface RelayMetrics {
  /** The number of answers on their way to callers, or kept for readers. */
  streams: number;
  /** The bytes that workers sent since the object started. */
  received_bytes: number;
}

/** The numbers of one pool; pools beyond the first 200 are summed up as `other`. */
export interface PoolMetrics {
  config_id: string;
  now: PoolNow;
  counts: PoolCounts;
}

/** The present state of a pool. Times are in epoch ms. */
export interface PoolNow {
  pending: Pending[];
  /** The time at which the longest pending job was submitted, by the jobs' mode; null: none is pending. */
  oldest_since: { waiting: number | null; stored: number | null };
  running: { waiting: number; stored: number };
  workers: { ready: number; paused: number; draining: number };
  /** The slots by their use. `paused`: those of workers that accept no more jobs, for now or for good. */
  slots: { busy: number; free: number; paused: number };
  /** The slots of an average worker that is connected, else of the last that was; null: none ever was. */
  slots_per_worker: number | null;
  /** The number of workers that could run all pending and running jobs at once. */
  wanted_workers: number;
}

/** The slots of one pool that batch work may use: all but those kept free for, or used by, interactive requests. */
export interface BatchSlots {
  /** The pool whose slots these are; null: no connected worker serves the model. */
  config_id: string | null;
  slots: number;
}

/** The numbers of jobs of one priority that have no worker yet, by their mode. */
export interface Pending {
  priority: number;
  waiting: number;
  stored: number;
}

/**
 * The amounts of slot time: all of it, ms; the part at workers whose price is not known, ms; and the cost of the rest,
 * in billionths of a US dollar, since sums of whole numbers are exact.
 */
export const SLOT_AMOUNTS = ['slot_ms', 'unpriced_slot_ms', 'nanodollars'] as const;

/**
 * The amounts that a settlement reports of a request. Tokens are sums; cached tokens are part of the input, reasoning
 * tokens part of the output.
 */
export const REPORTED_AMOUNTS = [
  'requests',
  'succeeded',
  'failed',
  'cancelled',
  'input',
  'cached',
  'output',
  'reasoning',
  'wasted',
  'estimated_requests',
] as const;
/** The amounts that usage is counted in. Slot time was used whatever became of the answer. */
export const USAGE_AMOUNTS = [...REPORTED_AMOUNTS, ...SLOT_AMOUNTS] as const;
export type UsageAmounts = Record<(typeof USAGE_AMOUNTS)[number], number>;

/** The keys that usage is counted by, beside the time. An empty text: unknown, or none. */
export const USAGE_KEYS = ['tenant', 'token_name', 'config_id', 'model', 'mode'] as const;
/**
 * The values of the key `mode`: a caller waited on a connection, or the job was stored, by itself or as a line of a
 * batch.
 */
export const USAGE_MODES = ['waiting', 'stored', 'batch'] as const;
export type UsageMode = (typeof USAGE_MODES)[number];
export type UsageKey = Record<(typeof USAGE_KEYS)[number], string>;

/** A sum of usage over rows. Keys that it was not grouped by are missing. */
export interface UsageSum extends UsageAmounts, Partial<UsageKey> {
  /** The epoch s at which the sum's hour or day begins, UTC. */
  start: number;
}

export interface UsageWanted {
  /** The period, epoch s: the start is included, the end is not. */
  from: number;
  to: number;
  /** The width of each sum, s: 3600 or 86400. Usage of more than HOURS_KEPT_DAYS ago is kept only by day. */
  width: number;
  groupBy: (keyof UsageKey)[];
  /** The values that each key may have. */
  filter: Partial<Record<keyof UsageKey, string[]>>;
  /** The number of sums to leave out at the beginning, which an earlier answer had. Left out: none. */
  skip?: number;
}

/**
 * Usage is kept by the hour for this many days, so that "today" can be told in any time zone; after that by the day of
 * UTC.
 */
export const HOURS_KEPT_DAYS = 14;
