import * as z from 'zod';
import type * as schemas from './fleet-schemas.ts';

/** What the dashboard, `worker-vllm top` and the routes of `/api/fleet` show of a fleet, as fleet-schemas.ts says. */

export type FleetView = z.infer<typeof schemas.FleetView>;

export type Verdict = FleetSummary['verdict'];

export type FleetSummary = z.infer<typeof schemas.FleetSummary>;

export type Acknowledgement = z.infer<typeof schemas.Acknowledgement>;

export type Attention = z.infer<typeof schemas.Attention>;

export type WorkerState = WorkerRow['state'];
export type WorkerRow = z.infer<typeof schemas.WorkerRow>;

export type PoolRow = z.infer<typeof schemas.PoolRow>;

/** What happened, in jobs and tokens. */
export type PoolTotals = Omit<PoolRates, 'wait_ms' | 'first_token_ms'>;

export type PoolRates = PoolRow['now'];

export type Percentiles = NonNullable<PoolRates['wait_ms']>;

export type FleetFrame = z.infer<typeof schemas.FleetFrame>;

/**
 * What a viewer sends: what it knows (left out: nothing), or that its page is hidden for now. Nothing is sent to it before
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

export type FleetHistory = z.infer<typeof schemas.FleetHistory>;

/** How many came in each step: jobs, and their tokens. */
export const JOB_COUNTS = [
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'rejected',
  /** Of `rejected`, those for want of a worker or a slot. */
  'turned_away',
  'tokens_in',
  'tokens_out',
  /** Of `tokens_in`, those that the engine had computed before. */
  'tokens_cached',
] as const;

/** Of jobs that came, or got so far, in each step. `…_n`: how many the percentiles beside it are of. */
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
  /** Between two tokens of an answer, as the mean of each answer. */
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
  /** At the end of a step, and the most in it. */
  'waiting',
  'waiting_most',
  'running',
  'slots',
  /** Workers that take jobs; that take none for now; that are on their way; that end; in error, late or lost. */
  'ready_workers',
  'paused_workers',
  'starting_workers',
  'draining_workers',
  'failed_workers',
  /** US dollars an hour, of machines that the scheduler launched. */
  'price_per_hour',
  'submitted',
  /** Of `tokens_in`, those that the queue supposed the chosen worker's engine had computed. */
  'tokens_predicted',
  /** Of requests by the engine, for want of KV cache. */
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
    /** Of all its GPUs: the mean, the sum, the highest, the sum. */
    'gpu_utilization',
    'gpu_memory_used_bytes',
    'gpu_temperature_celsius',
    'gpu_power_watts',
  ],
  pool: POOL_SERIES,
  fleet: POOL_SERIES,
  model: JOB_SERIES,
} as const;
