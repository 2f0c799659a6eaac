/** Shapes of what a fleet object is asked and answers: plain data. */

import type {
  AdapterState,
  Heartbeat,
  Instance,
  LogLine,
  MetricSample,
  ModelCard,
  PoolTotals,
  RequestRecord,
} from '../protocol/index.ts';

export type { AuditEnd, AuditWanted } from './audit.ts';
export type { TokenChange, TokenUse } from './tokens.ts';

/** The worker whose engine keeps a response; null: none is known; `foreign`: it is another tenant's. */
export type ResponseOwner = { worker_id: string } | 'foreign' | null;

/** Which pool a request is for. Names as an error message lists them: at most ten, "… and 32 more". */
export type PoolChoice =
  /** `start`: of one that the scheduler starts workers for. */
  | { kind: 'pool'; config_id: string; start?: PoolStart }
  /** No model was named and there are several pools. */
  | { kind: 'ambiguous'; models: string; pools: string }
  /** No pool is known for the model; the lists are empty where none is known at all. */
  | { kind: 'unknown'; models: string; pools: string };

/** Facts of work that waits for a pool which decide why it waits. */
export interface PoolAsking {
  config_id: string;
  /** Null: any model of the pool. */
  model: string | null;
  /** Whether the work gives way to requests, as lines of batches do. */
  is_batch: boolean;
}

/** The outcome of forgetting a worker; one that is connected stays known in any case. */
export type Forgotten = 'forgotten' | 'connected' | 'unknown';

export type FleetEvent =
  | (WorkerEvent & { kind: 'registered'; instance: Instance | null })
  /** Still connected: told from time to time so that neither worker nor models age out. */
  | (WorkerEvent & { kind: 'connected' })
  | (WorkerEvent & { kind: 'disconnected'; reason: string });

/** Of whom history is kept; the fleet's id is empty. */
export interface Subject {
  kind: 'worker' | 'pool' | 'model' | 'fleet';
  id: string;
}

/** Which requests a list shows. Null: any. Times in epoch ms. */
export interface RequestsWanted {
  filter: RequestFilter;
  /** What its id or its caller's name for it begins with. */
  id: string | null;
  /** In the message of its error, in either case. */
  text: string | null;
  /** Ended then or later, and before. */
  since: number | null;
  until: number | null;
  /** The `next` of the page before; null: the first page. */
  before: number | null;
  limit: number;
  /** Whose requests; null: everybody's. */
  viewer: string | null;
}

/** Columns that must be exactly this. */
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
  /** Only slow ones, or only others. */
  is_slow: boolean | null;
};

export interface RequestPage {
  requests: RequestRecord[];
  /** Where the next page begins; null: there is nothing more. A page before may be empty. */
  next: number | null;
}

export const HISTORY_RANGES = ['15m', '1h', '6h', '24h', '7d', '30d'] as const;
export type HistoryRange = (typeof HISTORY_RANGES)[number];

/** What a fleet object asks of its queue. */
export interface QueueTells {
  /** Has it record all of the queue's numbers; done when it has. */
  tellFleet(everything: true): Promise<void>;
  /**
   * These workers, and no others, get no more jobs, even while callers wait; they finish what they run, and are shown as
   * draining. Ids of workers that are not connected count once they are. Survives restarts of queue and workers.
   * Before it answers the queue has recorded its numbers.
   * @returns jobs that each of them holds, connected or not; one that has just lost its connection, and may be back
   * with jobs that nobody here knows of, is left out
   */
  cordon(workerIds: string[]): Promise<Record<string, number>>;
}

export interface RefusedWorker {
  /** A clause: "its token is not known here". */
  why: string;
  /** What would mend it. */
  advice: string;
}

/** `full`: the fleet object has just started, and has lost the queue's numbers. */
export interface RecordAnswer {
  wants: 'full' | null;
  /** Every pool that the scheduler starts workers for. */
  starts: PoolStart[];
}

/** A pool that the scheduler starts workers for: what callers may expect of it while it has none. */
export interface PoolStart {
  config_id: string;
  /** What callers may call it beside its id: the models that its workers serve, or will. */
  names: string[];
  /** `stopped`: none is started for callers now. */
  state: 'ready' | 'starting' | 'scaled_to_zero' | 'stopped';
  /** From 0 to 1, of the worker that is nearest to being ready; null: it does not tell. */
  progress: number | null;
  /** What callers wait for: "starting a worker: loading 62 %, usually 3 min". Of `stopped` why, a clause. */
  text: string;
  /** How long a caller waits for a worker to be started, ms, unless it says so itself. */
  wait_ms: number;
  /** Of `stopped`: when asking again may help, s. */
  retry_after_seconds: number;
  /**
   * Ids of connected workers that were started before the pool's settings were changed: they serve on, but what they
   * serve says nothing of those that are started now.
   */
  outdated: string[];
}

/**
 * The queue's numbers as the fleet object shows them: at most one share a second, and only when something changed.
 * Counts are cumulative, so that a share that is lost or comes twice does no harm.
 */
export interface QueueShare {
  /** Epoch ms of the queue's clock. */
  at: number;
  /** Everything, after a start of either object; else only what changed since the share that was taken last. */
  full: boolean;
  /** Connected workers that changed. */
  sessions: SessionShare[];
  /** Ids of workers that are no longer connected. */
  gone: string[];
  /** Pools that changed. */
  pools: PoolShare[];
}

/** A connected worker. */
export interface SessionShare {
  worker_id: string;
  config_id: string;
  /** Taking jobs, or connected but not taking. */
  state: 'ready' | 'paused' | 'draining';
  protocol: 'base' | 'extended';
  capacity: number;
  running: number;
  /** Epoch ms */
  connected_at: number;
  /** Names its engine answers to; empty: only its pool's own. */
  models: string[];
  /** Null: it loads none. */
  adapters: AdapterState | null;
}

export interface PoolShare {
  config_id: string;
  /** Jobs without a worker. */
  pending: { waiting: number; stored: number };
  /** Both together, highest priority first. */
  by_priority: { priority: number; pending: number }[];
  /** Epoch ms when the one that waits longest was submitted; null: none waits. */
  oldest_since: number | null;
  /** The same of callers that wait on a connection. */
  oldest_caller_since: number | null;
  running: number;
  /** Of `totals.submitted`, jobs that give way to all others: their priority is below zero, as that of lines of batches. */
  submitted_in_background: number;
  /** Since the queue was made. */
  totals: PoolTotals;
  /**
   * Cumulative counts of the histograms in protocol/buckets.ts: one for each bound, and last of all that were measured. Empty:
   * nothing was measured yet.
   */
  wait_buckets: number[];
  first_token_buckets: number[];
  /** The same of callers that waited on their connection. */
  live_first_token_buckets: number[];
  per_token_buckets: number[];
  duration_buckets: number[];
}

interface WorkerEvent {
  worker_id: string;
  config_id: string;
  /** Names its engine answers to, as many as are remembered; none: it is known by its pool alone. */
  models: string[];
  /** Epoch ms of the queue's clock. */
  at: number;
}

/** All that is known of one worker. Times are epoch ms of the server's clock, but for those in its heartbeat. */
export interface KnownWorker {
  worker_id: string;
  /** Of its newest connection or heartbeat; null: it has named none. */
  config_id: string | null;
  /** Its connection; null: there is none. */
  session: SessionShare | null;
  /** As it last registered; null: it only sent heartbeats, or it speaks only the base protocol. */
  instance: Instance | null;
  heartbeat: Heartbeat | null;
  heartbeat_at: number | null;
  /** When its newest heartbeat came, or the queue reported it. */
  heard_at: number;
  /** How its last connection ended; null: it did not, or never was. */
  disconnected: { at: number; reason: string } | null;
  /** Jobs that it ran when its last connection ended; null: unknown. */
  was_running: number | null;
}

export interface KnownModel {
  id: string;
  config_id: string;
  /** Epoch ms when the first worker that serves it registered. */
  first_seen_ms: number;
  /** What its engine says of it in `/v1/models`; null: it does not tell. */
  card: ModelCard | null;
}

export type TelemetryKind = 'logs' | 'metrics';
export type TelemetryItem = LogLine | MetricSample;
export type TelemetryBatch = { kind: 'logs'; items: LogLine[] } | { kind: 'metrics'; items: MetricSample[] };

/** Items are numbered in the order in which they came; neither `after` nor `before`: the newest. */
export interface TelemetryQuery {
  /** The first ones with a greater number. */
  after?: number;
  /** The last ones with a smaller number. */
  before?: number;
  limit: number;
}

export interface TelemetryPage {
  /** In the order of their numbers. */
  items: (TelemetryItem & { number: number })[];
  /** There are more, in the direction that was asked for. */
  has_more: boolean;
}
