/** The shapes of a fleet object's calls and answers: plain data. */

import type { AliasTable } from '../aliases/alias.ts';
import type {
  Instance,
  LogLine,
  MetricSample,
  ModelCard,
  PoolTotals,
  RequestRecord,
} from '../protocol/index.ts';
import type { CanaryShare, SessionShare } from '../scheduler/machines.ts';

export type { CanaryShare, DisplacedJobs, Machine, SessionShare } from '../scheduler/machines.ts';
export type { AuditEnd, AuditWanted } from './audit.ts';
export type { PersonSeen, TokenChange, TokenUse } from './tokens.ts';

/** The pool that a request is for. Names are listed as in an error message: at most ten, "… and 32 more". */
export type PoolChoice =
  /** The request is for this pool; `start` is set if the scheduler starts workers for it. */
  | { kind: 'pool'; config_id: string; start?: PoolStart }
  /** The request names no model, and there are several pools. */
  | { kind: 'ambiguous'; models: string; pools: string }
  /** No pool is known for the model; the lists are empty if none is known at all. */
  | { kind: 'unknown'; models: string; pools: string };

/** The facts about waiting work that decide what it waits for. */
export interface PoolAsking {
  config_id: string;
  /** The model that the work needs; null: any model of the pool. */
  model: string | null;
  /** Whether the work gives way to requests, as lines of batches do. */
  is_batch: boolean;
}

/** The outcome of forgetting a worker; one that is connected stays known in any case. */
export type Forgotten = 'forgotten' | 'connected' | 'unknown';

export type FleetEvent =
  | (WorkerEvent & { kind: 'registered'; instance: Instance | null })
  /** The worker is still connected: reported from time to time so that neither worker nor models age out. */
  | (WorkerEvent & { kind: 'connected' })
  | (WorkerEvent & { kind: 'disconnected'; reason: string });

/** The subject of a history; the fleet's id is empty. */
export interface Subject {
  kind: 'worker' | 'pool' | 'model' | 'fleet';
  id: string;
}

/** Selects the requests that a list shows; a field that is null fits any. Times in epoch ms. */
export interface RequestsWanted {
  filter: RequestFilter;
  /** The beginning of the request's id, or of its caller's name for it. */
  id: string | null;
  /** A part of the error's message, in either case. */
  text: string | null;
  /** The list shows requests that ended then or later, and before `until`. */
  since: number | null;
  until: number | null;
  /** The `next` of the page before this one; null: the first page. */
  before: number | null;
  limit: number;
  /** The tenant whose requests are shown; null: everybody's. */
  viewer: string | null;
}

/** The columns of a request that a filter compares with a value. */
export const REQUEST_FILTERS = [
  'outcome',
  'kind',
  'model',
  'config_id',
  'route',
  'tenant',
  'token_name',
  'worker_id',
  'error_code',
] as const;
export type RequestFilter = Record<(typeof REQUEST_FILTERS)[number], string | null> & {
  /** Whether only slow requests are listed (true), or only others (false). */
  is_slow: boolean | null;
};

export interface RequestPage {
  requests: RequestRecord[];
  /** The `before` of the next page; null: there is no next page. Even an empty page may have one. */
  next: number | null;
}

export const HISTORY_RANGES = ['15m', '1h', '6h', '24h', '7d', '30d'] as const;
export type HistoryRange = (typeof HISTORY_RANGES)[number];

/** The queue's methods that a fleet object calls. */
export interface QueueTells {
  /** Reports all of the queue's numbers to the fleet object; resolves once the fleet object has them. */
  tellFleet(everything: true): Promise<void>;
  /**
   * Gives no more jobs to these workers, and to these alone, even while callers wait; they finish what they run, and
   * are shown as draining. An id of a worker that is not connected takes effect when the worker connects. The cordon
   * survives restarts of queue and workers. Before it answers, the queue has reported its numbers.
   * @returns the number of jobs that each of the workers holds, connected or not; a worker that has just lost its
   * connection, and may return with jobs that the queue does not know of, is left out
   * @param shares the new versions of pools that get a part of their pools' requests alone
   */
  cordon(workerIds: string[], shares?: CanaryShare[]): Promise<Record<string, number>>;
  /**
   * Closes the connections of those of these workers from which nothing has been heard for so long that they are gone,
   * by the rule by which the queue looks at a worker before it gives it a job. Ids of others are passed over.
   */
  closeSilent(workerIds: string[]): Promise<void>;
}

export interface RefusedWorker {
  /** The reason for the refusal, a clause: "its token is not known here". */
  why: string;
  /** Advice that tells how to remove the cause. */
  advice: string;
}

/** The fleet object's answer to a report. `wants: 'full'`: it has just started, and lacks the queue's numbers. */
export interface RecordAnswer {
  wants: 'full' | null;
  /** Every pool that the scheduler starts workers for. */
  starts: PoolStart[];
  /** The aliases of the fleet's file. */
  aliases: AliasTable;
}

/** A pool that the scheduler starts workers for, and what callers may expect of it while it has no worker. */
export interface PoolStart {
  config_id: string;
  /** The names by which callers may request the pool beside its id: the models that its workers serve, or will. */
  names: string[];
  /** Whether callers are served; `stopped`: no worker is started for callers at present. */
  state: 'ready' | 'starting' | 'scaled_to_zero' | 'stopped';
  /** The progress of the worker that is nearest to being ready, from 0 to 1; null: the worker does not report it. */
  progress: number | null;
  /**
   * The words for what callers wait for: "starting a worker: loading 62 %, usually 3 min". If `stopped`, the reason, a
   * clause.
   */
  text: string;
  /** The longest wait of a caller for a worker to be started, ms, unless the caller sets it. */
  wait_ms: number;
  /** If `stopped`, the seconds after which asking again may help. */
  retry_after_seconds: number;
  /**
   * Ids of connected workers that were started before the pool's settings were changed: they keep serving, but their
   * models say nothing about workers that are started now.
   */
  outdated: string[];
}

/**
 * The queue's numbers as the fleet object shows them: at most one share a second, and only when something changed.
 * Counts are cumulative, so that a share that is lost or arrives twice does no harm.
 */
export interface QueueShare {
  /** When the queue made the share, epoch ms of its clock. */
  at: number;
  /**
   * Whether the share has everything, as after a start of either object; if not, it has what changed since the last
   * share that was taken.
   */
  full: boolean;
  /** The connected workers that changed. */
  sessions: SessionShare[];
  /** The ids of workers that are no longer connected. */
  gone: string[];
  /** The pools that changed. */
  pools: PoolShare[];
}

export interface PoolShare {
  config_id: string;
  /** The numbers of jobs without a worker. */
  pending: { waiting: number; stored: number };
  /** The pending jobs of both kinds by priority, highest first. */
  by_priority: { priority: number; pending: number }[];
  /** When the job that waits longest was submitted, epoch ms; null: none waits. */
  oldest_since: number | null;
  /** When the job that waits longest with a caller on a connection was submitted, epoch ms; null: none waits. */
  oldest_caller_since: number | null;
  running: number;
  /**
   * The part of `totals.submitted` that yields to all other jobs: jobs with a priority below zero, such as lines of
   * batches.
   */
  submitted_in_background: number;
  /** The totals since the queue was made. */
  totals: PoolTotals;
  /**
   * Cumulative counts of the histograms in protocol/buckets.ts: one for each bound, and last the count of all. Empty:
   * nothing was measured yet.
   */
  wait_buckets: number[];
  first_token_buckets: number[];
  /** The times to the first token of callers that waited on their connection. */
  live_first_token_buckets: number[];
  per_token_buckets: number[];
  duration_buckets: number[];
}

interface WorkerEvent {
  worker_id: string;
  config_id: string;
  /**
   * The names that the worker's engine answers to, as many as are remembered; empty: the worker is known by its pool
   * alone.
   */
  models: string[];
  /** When the event happened, epoch ms of the queue's clock. */
  at: number;
}

export interface KnownModel {
  id: string;
  config_id: string;
  /** When the first worker that serves the model registered, epoch ms. */
  first_seen_ms: number;
  /** The engine's entry for the model in `/v1/models`; null: there is none. */
  card: ModelCard | null;
}

export type TelemetryKind = 'logs' | 'metrics';
export type TelemetryItem = LogLine | MetricSample;
export type TelemetryBatch = { kind: 'logs'; items: LogLine[] } | { kind: 'metrics'; items: MetricSample[] };

/**
 * Selects items by number; they are numbered as they came. With neither `after` nor `before`, the newest are returned.
 */
export interface TelemetryQuery {
  /** The first items with a greater number are returned. */
  after?: number;
  /** The last items with a smaller number are returned. */
  before?: number;
  limit: number;
}

export interface TelemetryPage {
  /** The items in the order of their numbers. */
  items: (TelemetryItem & { number: number })[];
  /** Whether there are more items in the direction of the query. */
  has_more: boolean;
}
