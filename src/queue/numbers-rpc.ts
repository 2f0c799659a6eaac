import type { PoolCounts } from './state/pool-counts.ts';

/** The numbers of a queue, for machines: `GET /metrics` and `GET /api/scale`. */
export interface QueueMetrics {
  /** Epoch ms of the queue's clock. */
  at: number;
  /** Bytes of the object's database. */
  storage_bytes: number;
  /** Of the relays that the queue's object holds; null: each has an object of its own. */
  relays: RelayMetrics | null;
  pools: PoolMetrics[];
}

export interface RelayMetrics {
  /** Answers on their way to callers, or kept for readers. */
  streams: number;
  /** Bytes that workers sent since the object started. */
  received_bytes: number;
}

/** One pool; those beyond 200 together, as `other`. */
export interface PoolMetrics {
  config_id: string;
  now: PoolNow;
  counts: PoolCounts;
}

/** How a pool stands. Times in epoch ms. */
export interface PoolNow {
  pending: Pending[];
  /** Of callers on a connection, and of stored jobs, when the one that waits longest was submitted; null: none waits. */
  oldest_since: { waiting: number | null; stored: number | null };
  running: { waiting: number; stored: number };
  workers: { ready: number; paused: number; draining: number };
  /** `paused`: of workers that take no more jobs than they run, for now or for good. */
  slots: { busy: number; free: number; paused: number };
  /** Of a worker, by those that are connected, else by the last that was; null: none ever was. */
  slots_per_worker: number | null;
  /** Workers that could run at once all that waits and runs. */
  wanted_workers: number;
}

/** The slots of one pool that batch work may use: all but those kept free for, or used by, interactive requests. */
export interface BatchSlots {
  /** Null: no worker that is here serves the model. */
  config_id: string | null;
  slots: number;
}

/** Jobs of one priority that have no worker yet, by their mode. */
export interface Pending {
  priority: number;
  waiting: number;
  stored: number;
}

/**
 * The time that attempts held slots, ms; of it that of workers whose price is not known, and what the rest cost, in
 * billionths of a US dollar: sums of whole numbers are exact.
 */
export const SLOT_AMOUNTS = ['slot_ms', 'unpriced_slot_ms', 'nanodollars'] as const;

/** What is counted. Tokens are sums; cached ones are among the input, those of reasoning among the output. */
export const USAGE_AMOUNTS = [
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
  ...SLOT_AMOUNTS,
] as const;
export type UsageAmounts = Record<(typeof USAGE_AMOUNTS)[number], number>;

/** What it is counted by, beside the time. An empty text: unknown, or none. */
export const USAGE_KEYS = ['tenant', 'token_name', 'config_id', 'model', 'mode'] as const;
/** Values of the key `mode`: a caller waited on a connection, or the job was stored, as a line of a batch or by itself. */
export const USAGE_MODES = ['waiting', 'stored', 'batch'] as const;
export type UsageMode = (typeof USAGE_MODES)[number];
export type UsageKey = Record<(typeof USAGE_KEYS)[number], string>;

/** A sum over rows. Keys that it was not grouped by are missing. */
export interface UsageSum extends UsageAmounts, Partial<UsageKey> {
  /** Epoch s at which its hour or day begins, UTC. */
  start: number;
}

export interface UsageWanted {
  /** Epoch s, the start inclusive, the end exclusive. */
  from: number;
  to: number;
  /** Width of what is summed up, s: 3600 or 86400; of more than HOURS_KEPT_DAYS ago there are only days. */
  width: number;
  groupBy: (keyof UsageKey)[];
  /** Each must be one of these. */
  filter: Partial<Record<keyof UsageKey, string[]>>;
}

/** Hours are kept for this long, so that "today" can be told in any time zone; then they become days of UTC. */
export const HOURS_KEPT_DAYS = 14;
