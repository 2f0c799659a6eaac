import * as z from 'zod';
import {
  type Attention as AttentionType,
  type ConfigRow as ConfigRowType,
  type FleetFrame as FleetFrameType,
  type FleetHistory as FleetHistoryType,
  type FleetSummary as FleetSummaryType,
  type FleetView as FleetViewType,
  GpuReading,
  StartTimes,
  type WorkerRow as WorkerRowType,
} from '../../protocol/index.ts';
import { ConfigScaling, LaunchRow, ScalingSummary } from './scaling-answers.ts';

/** What `/api/fleet` shows, held against the types of protocol/fleet-view.ts by the compiler. */

const count = z.number().int().min(0);
/** Epoch ms of the server's clock. */
const time = z.number();
const ms = z.number();
const share = z.number().min(0).max(1);
const text = z.string();

export const FleetSummary: z.ZodType<FleetSummaryType> = z.object({
  verdict: z.enum(['serving', 'degraded', 'not_serving', 'empty']),
  text,
  workers: count,
  ready_workers: count,
  slots: count,
  busy_slots: count,
  waiting: count,
  oldest_wait_ms: ms.nullable(),
  tokens_per_second: z.number().nullable(),
});

export const Attention: z.ZodType<AttentionType> = z.object({
  code: z.enum([
    'no_ready_worker',
    'starts_fail',
    'launcher_silent',
    'provider_silent',
    'budget_reached',
    'jobs_wait',
    'worker_error',
    'worker_lost',
    'start_slow',
    'engine_backlog',
    'token_refused',
    'success_rate',
    'unknown_model',
  ]),
  severity: z.enum(['error', 'warning']),
  config_id: text.nullable(),
  worker_id: text.nullable(),
  text,
  advice: text,
  since: time,
});

export const WorkerRow: z.ZodType<WorkerRowType> = z.object({
  worker_id: text,
  config_id: text.nullable(),
  state: z.enum([
    'starting',
    'loading',
    'ready',
    'running',
    'paused',
    'late',
    'draining',
    'error',
    'lost',
    'stopped',
  ]),
  state_since: time.nullable(),
  phase: text.nullable(),
  phase_since: time.nullable(),
  progress: share.nullable(),
  expected_start_ms: ms.nullable(),
  start: StartTimes,
  models: z.array(text),
  slots: count.nullable(),
  running: count.nullable(),
  engine_running: count.nullable(),
  engine_waiting: count.nullable(),
  kv_cache_usage: share.nullable(),
  tokens_per_second: z.number().nullable(),
  tokens_history: z.array(z.number().nullable()),
  first_token_ms: ms.nullable(),
  gpus: z.array(GpuReading),
  heartbeat_at: time.nullable(),
  heartbeat_interval_ms: ms.nullable(),
  connected_at: time.nullable(),
  protocol: z.enum(['base', 'extended']).nullable(),
  engine: text.nullable(),
  engine_version: text.nullable(),
  worker_version: text.nullable(),
  host: text.nullable(),
  missed_renewals: count.nullable(),
  spool_bytes: count.nullable(),
  error: z.object({ message: text, advice: text.nullable(), at: time }).nullable(),
  was_doing: text.nullable(),
  disconnected: z.object({ at: time, reason: text }).nullable(),
});

const percentiles = z.object({ p50: ms, p95: ms, p99: ms }).nullable();
const rates = z.object({
  submitted: count,
  succeeded: count,
  failed: count,
  cancelled: count,
  expired: count,
  rejected: count,
  tokens_in: count,
  tokens_out: count,
  wait_ms: percentiles,
  first_token_ms: percentiles,
});

export const ConfigRow: z.ZodType<ConfigRowType> = z.object({
  config_id: text,
  models: z.array(text),
  workers: count,
  ready_workers: count,
  slots: count,
  busy_slots: count,
  waiting: z.object({ callers: count, stored: count }),
  by_priority: z.array(z.object({ priority: z.number().int(), waiting: count })),
  oldest_wait_ms: ms.nullable(),
  why_waiting: text.nullable(),
  now: rates,
  hour: rates,
  day: rates,
  scaling: ConfigScaling.nullable(),
});

export const FleetView: z.ZodType<FleetViewType> = z.object({
  version: count,
  epoch: text,
  at: time,
  queue_id: text,
  summary: FleetSummary,
  attention: z.array(Attention),
  configs: z.array(ConfigRow),
  workers: z.array(WorkerRow),
  launches: z.array(LaunchRow),
  scaling: ScalingSummary.nullable(),
});

export const FleetFrame: z.ZodType<FleetFrameType> = z.discriminatedUnion('type', [
  z.object({ type: z.literal('full'), view: FleetView }),
  z.object({
    type: z.literal('changed'),
    version: count,
    at: time,
    summary: FleetSummary,
    attention: z.array(Attention),
    scaling: ScalingSummary.nullable(),
    configs: z.array(ConfigRow),
    workers: z.array(WorkerRow),
    launches: z.array(LaunchRow),
    gone: z.object({ workers: z.array(text), configs: z.array(text), launches: z.array(text) }),
  }),
]);

export const FleetHistory: z.ZodType<FleetHistoryType> = z.object({
  at: z.array(time),
  step_ms: ms,
  series: z.record(z.string(), z.array(z.number().nullable())),
});
