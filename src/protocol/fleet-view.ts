import * as z from 'zod';
import type * as schemas from './fleet-schemas.ts';

/**
 * The types of what the dashboard, `worker-vllm top` and the routes of `/api/fleet` show of a fleet (fleet-schemas.ts).
 */

export type FleetView = z.infer<typeof schemas.FleetView>;

export type Verdict = FleetSummary['verdict'];

export type FleetSummary = z.infer<typeof schemas.FleetSummary>;

export type Acknowledgement = z.infer<typeof schemas.Acknowledgement>;

export type Attention = z.infer<typeof schemas.Attention>;

export type WorkerState = WorkerRow['state'];
export type WorkerRow = z.infer<typeof schemas.WorkerRow>;

export type AliasRow = z.infer<typeof schemas.AliasRow>;

export type PoolRow = z.infer<typeof schemas.PoolRow>;

/** The numbers of jobs and tokens in a span of time. */
export type PoolTotals = Omit<PoolRates, 'wait_ms' | 'first_token_ms'>;

export type PoolRates = PoolRow['now'];

export type Percentiles = NonNullable<PoolRates['wait_ms']>;

export type FleetFrame = z.infer<typeof schemas.FleetFrame>;

/**
 * The frames that a viewer sends. They say which version it knows (none if left out), or that its page is hidden for
 * now. The server sends nothing before a viewer's first `watch`. It answers the text `ping` with `pong`: a viewer sends
 * one every 10 s, and none before the last one was answered. A viewer from which nothing came for 30 s is sent nothing
 * until a frame comes from it again.
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

export type FleetHistory = z.infer<typeof schemas.FleetHistory>;

/** The number of jobs that ended in each step, and of their tokens. */
export const JOB_COUNTS = [
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'rejected',
  /** The part of `rejected` that found no worker or slot. */
  'turned_away',
  'tokens_in',
  'tokens_out',
  /** The part of `tokens_in` that the engine had in its cache. */
  'tokens_cached',
] as const;

/**
 * The series of jobs that came, or got so far, in each step. `…_n`: the number of values behind the percentiles beside
 * it.
 */
const JOB_SERIES = [
  ...JOB_COUNTS,
  'wait_ms_p50',
  'wait_ms_p95',
  'wait_ms_p99',
  'wait_ms_n',
  'first_token_ms_p50',
  'first_token_ms_p95',
  'first_token_ms_p99',
  'first_token_ms_n',
  /** The time between two tokens of an answer, as the mean of each answer. */
  'per_token_ms_p50',
  'per_token_ms_p95',
  'per_token_ms_p99',
  'per_token_ms_n',
  'duration_ms_p50',
  'duration_ms_p95',
  'duration_ms_p99',
  'duration_ms_n',
] as const;

const POOL_SERIES = [
  /** The jobs that wait at the end of a step, and the most in it. */
  'waiting',
  'waiting_most',
  'running',
  'slots',
  /**
   * The numbers of workers that take jobs; that take none for now; that are on their way; that end; and that are in
   * error, late or lost.
   */
  'ready_workers',
  'paused_workers',
  'starting_workers',
  'draining_workers',
  'failed_workers',
  /** US dollars an hour of machines that the scheduler launched. */
  'price_per_hour',
  'submitted',
  /** The part of `tokens_in` that the queue expected in the cache of the chosen worker's engine. */
  'tokens_predicted',
  /** The number of requests that the engine preempted for want of KV cache. */
  'preemptions',
  ...JOB_SERIES,
] as const;

/** The series of each kind of history. */
export const HISTORY_SERIES = {
  worker: [
    'tokens_per_second',
    'first_token_ms',
    'running',
    'engine_running',
    'engine_waiting',
    'kv_cache_usage',
    /** The worker's GPUs: the mean utilization, the sum of memory, the highest temperature, the sum of power. */
    'gpu_utilization',
    'gpu_memory_used_bytes',
    'gpu_temperature_celsius',
    'gpu_power_watts',
  ],
  pool: POOL_SERIES,
  fleet: POOL_SERIES,
  model: JOB_SERIES,
} as const;
