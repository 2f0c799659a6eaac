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
