import * as z from 'zod';

/** What workers of both protocols post besides heartbeats: log lines and snapshots, in the base's forms. */

/** The longest stored message of a line, UTF-16 units; what our workers send is no longer. */
const MESSAGE_CHARACTERS = 4200;
/** The most items in one batch: the base sends 1,000 lines at most, and our workers 60 snapshots. */
const BATCH_ITEMS = 1000;

const instanceId = z.string().min(1).max(256);
const queueId = z.string().min(1).max(256).nullish();
const id = z.string().max(256).nullish();
const seconds = z.number().min(0).max(1e11);

export const LogLine = z.object({
  /** When the line was written, epoch seconds. */
  timestamp: seconds,
  level: z.enum(['info', 'warning', 'error']),
  /** `worker` or `vllm` (the engine, whichever it is); newer workers of the base also send `diagnostics`. */
  source: z.string().min(1).max(64),
  message: z.string().transform((text) => text.slice(0, MESSAGE_CHARACTERS)),
  job_id: id,
  config_id: id,
});
export type LogLine = z.infer<typeof LogLine>;

/** The body of `POST /api/logs`. */
export const LogBatch = z.object({
  instance_id: instanceId,
  queue_id: queueId,
  entries: z.array(LogLine).max(BATCH_ITEMS),
});
export type LogBatch = z.infer<typeof LogBatch>;

const figure = z.number().nullish();

/** Figures of worker, engine and first GPU at one moment; unknown figures are left out. */
export const MetricSample = z.object({
  /** When the figures were read, epoch seconds. */
  timestamp: seconds,
  worker_uptime_s: figure,
  gpu_memory_used_mb: figure,
  gpu_memory_total_mb: figure,
  gpu_utilization_pct: figure,
  gpu_temperature_c: figure,
  vllm_running_requests: figure,
  vllm_waiting_requests: figure,
  current_job_id: id,
});
export type MetricSample = z.infer<typeof MetricSample>;

/** The body of `POST /api/metrics`. */
export const MetricBatch = z.object({
  instance_id: instanceId,
  queue_id: queueId,
  config_id: id,
  snapshots: z.array(MetricSample).max(BATCH_ITEMS),
});
export type MetricBatch = z.infer<typeof MetricBatch>;
