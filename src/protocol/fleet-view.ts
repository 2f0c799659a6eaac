import * as z from 'zod';
import type { GpuReading, StartTimes } from './heartbeat.ts';
import type { ConfigScaling, LaunchRow, ScalingSummary } from './scaling.ts';

/**
 * What the dashboard, `worker-vllm top`, `GET /api/fleet` and its live socket show of a fleet. One projection
 * (fleet/view) makes all of it, so that a list and a detail never disagree. Times are epoch ms of the server's clock;
 * null is unknown, never zero.
 */
export interface FleetView {
  /** Grows with every change, within one life of the object (`epoch`). */
  version: number;
  /** Random, one for each start of the fleet object: versions of another are not comparable. */
  epoch: string;
  /** When this was made. */
  at: number;
  queue_id: string;
  summary: FleetSummary;
  /** Worst first. */
  attention: Attention[];
  configs: ConfigRow[];
  workers: WorkerRow[];
  /** Machines that the scheduler launched, newest first; empty where it launches none. */
  launches: LaunchRow[];
  /** Null: no fleet's file was applied. */
  scaling: ScalingSummary | null;
}

/** `empty`: no worker has ever been heard of. */
export type Verdict = 'serving' | 'degraded' | 'not_serving' | 'empty';

export interface FleetSummary {
  verdict: Verdict;
  /** One sentence: "3 of 4 configs fine; llama-8b: 12 jobs wait 40 s because its only worker loads, 62 %". */
  text: string;
  workers: number;
  ready_workers: number;
  slots: number;
  busy_slots: number;
  waiting: number;
  oldest_wait_ms: number | null;
  tokens_per_second: number | null;
}

/** One thing that needs somebody, and what to do about it. */
export interface Attention {
  code:
    | 'no_ready_worker'
    | 'starts_fail'
    | 'launcher_silent'
    | 'provider_silent'
    | 'budget_reached'
    | 'jobs_wait'
    | 'worker_error'
    | 'worker_lost'
    | 'start_slow'
    | 'engine_backlog'
    | 'token_refused'
    | 'success_rate'
    | 'unknown_model';
  severity: 'error' | 'warning';
  config_id: string | null;
  worker_id: string | null;
  /** A sentence that names the cause. */
  text: string;
  /** The next step. */
  advice: string;
  since: number;
}

/**
 * - `starting`, `loading`: not registered yet, by its heartbeats
 * - `ready` (nothing runs), `running`
 * - `paused`: connected, takes no jobs for now: its engine has a backlog
 * - `late`: one to three intervals without a heartbeat, and not connected
 * - `draining`: finishes what runs, and ends
 * - `error`: says so itself
 * - `lost`: silent for more than three intervals
 * - `stopped`: said that it was stopping
 */
export type WorkerState =
  | 'starting'
  | 'loading'
  | 'ready'
  | 'running'
  | 'paused'
  | 'late'
  | 'draining'
  | 'error'
  | 'lost'
  | 'stopped';

export interface WorkerRow {
  worker_id: string;
  config_id: string | null;
  state: WorkerState;
  state_since: number | null;
  phase: string | null;
  phase_since: number | null;
  progress: number | null;
  /** How long a start of this config usually takes, created to healthy, by its own history. */
  expected_start_ms: number | null;
  start: StartTimes;
  models: string[];
  slots: number | null;
  running: number | null;
  engine_running: number | null;
  engine_waiting: number | null;
  kv_cache_usage: number | null;
  tokens_per_second: number | null;
  /** The newest 60 minutes, a value each minute, oldest first. */
  tokens_history: (number | null)[];
  first_token_ms: number | null;
  gpus: GpuReading[];
  heartbeat_at: number | null;
  heartbeat_interval_ms: number | null;
  connected_at: number | null;
  protocol: 'base' | 'extended' | null;
  engine: string | null;
  engine_version: string | null;
  worker_version: string | null;
  host: string | null;
  missed_renewals: number | null;
  spool_bytes: number | null;
  error: { message: string; advice: string | null; at: number } | null;
  /** Of one that is lost: what it was doing, "was running 3 jobs". */
  was_doing: string | null;
  /** How its last connection ended. */
  disconnected: { at: number; reason: string } | null;
}

export interface ConfigRow {
  config_id: string;
  models: string[];
  workers: number;
  ready_workers: number;
  slots: number;
  busy_slots: number;
  /** Callers on a connection, and stored jobs. */
  waiting: { callers: number; stored: number };
  /** Those that wait, by priority. */
  by_priority: { priority: number; waiting: number }[];
  oldest_wait_ms: number | null;
  /** Why they wait; null: nothing does. "no worker is ready", "all 8 slots are busy: 3.1/s come, 2.0/s end". */
  why_waiting: string | null;
  /** Over the newest minute. */
  now: ConfigRates;
  hour: ConfigRates;
  day: ConfigRates;
  /** Null: the fleet's file does not name it. */
  scaling: ConfigScaling | null;
}

/** What happened, in jobs and tokens. */
export interface ConfigTotals {
  submitted: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  expired: number;
  rejected: number;
  tokens_in: number;
  tokens_out: number;
}

/** What happened over a span of time. */
export interface ConfigRates extends ConfigTotals {
  /** p50, p95, p99; null: nothing was measured. */
  wait_ms: Percentiles | null;
  first_token_ms: Percentiles | null;
}

export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
}

/**
 * What the server sends on `GET /api/fleet/live`, a WebSocket: at most one a second to a viewer. The first is `full`;
 * `changed` holds only rows that changed since `version - 1` of the viewer, each of them whole.
 */
export type FleetFrame =
  | { type: 'full'; view: FleetView }
  | {
      type: 'changed';
      version: number;
      at: number;
      summary: FleetSummary;
      attention: Attention[];
      scaling: ScalingSummary | null;
      configs: ConfigRow[];
      workers: WorkerRow[];
      launches: LaunchRow[];
      gone: { workers: string[]; configs: string[]; launches: string[] };
    };

/**
 * What a viewer sends: what it knows (left out: nothing), or that nobody looks at it for now. Nothing is sent to it before
 * its first `watch`. The text `ping` is answered with `pong`: a viewer sends one every 10 s, and none before the last one
 * was answered. One of which nothing was heard for 30 s is sent nothing until it is heard again.
 */
export const FleetViewerFrame = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('watch'),
    epoch: z.string().max(64).optional(),
    version: z.number().int().min(0).optional(),
  }),
  z.object({ type: z.literal('pause') }),
]);
export type FleetViewerFrame = z.infer<typeof FleetViewerFrame>;

/** Body of `GET /api/fleet/history?config_id=|worker_id=&range=1h|24h`: columns of equal length. */
export interface FleetHistory {
  /** Start of each step, epoch ms. */
  at: number[];
  step_ms: number;
  /** By name, as in `HISTORY_SERIES`. */
  series: Record<string, (number | null)[]>;
}

/** The series of a worker's history and of a config's. */
export const HISTORY_SERIES = {
  worker: [
    'tokens_per_second',
    'first_token_ms',
    'running',
    'engine_running',
    'engine_waiting',
    'kv_cache_usage',
    /** Of all its GPUs: the mean, the sum, the highest, the sum. */
    'gpu_utilization',
    'gpu_memory_used_bytes',
    'gpu_temperature_celsius',
    'gpu_power_watts',
  ],
  config: [
    'waiting',
    'running',
    'slots',
    'ready_workers',
    /** How many in each step. */
    'submitted',
    'succeeded',
    'failed',
    'cancelled',
    'expired',
    'rejected',
    'tokens_in',
    'tokens_out',
    /** Of the jobs that got so far in that step. */
    'wait_ms_p50',
    'wait_ms_p95',
    'wait_ms_p99',
    'first_token_ms_p50',
    'first_token_ms_p95',
    'first_token_ms_p99',
    'duration_ms_p50',
    'duration_ms_p95',
    'duration_ms_p99',
  ],
} as const;
