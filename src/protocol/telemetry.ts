import * as z from 'zod';

/**
 * The states that a worker reports: `active` is the deployed workers' word for `running`; `fatal` means that the host
 * itself is bad.
 */
const HEARTBEAT_STATUSES = [
  'starting',
  'running',
  'active',
  'draining',
  'stopping',
  'error',
  'failed',
  'fatal',
] as const;

const count = z.number().int().min(0);
const bytes = z.number().int().min(0);
/** A share from 0 to 1. */
const share = z.number().min(0).max(1);
/** Epoch ms by the worker's clock; a later time is none that a browser could show. */
const time = z.number().int().min(0).max(8.64e15);

/** A GPU at one moment; what its driver does not report is left out. */
export const GpuReading = z.object({
  name: z.string().max(256).optional(),
  memory_used_bytes: bytes.optional(),
  memory_total_bytes: bytes.optional(),
  utilization: share.optional(),
  temperature_celsius: z.number().optional(),
  power_watts: z.number().min(0).optional(),
});
export type GpuReading = z.infer<typeof GpuReading>;

/** The times when a container reached each step of its start; steps that it has not reached are left out. */
export const StartTimes = z.object({
  /** The platform created the container (`CASOLA_CREATED_AT`), or its first process ran. */
  created_ms: time.optional(),
  /** The engine was started. */
  engine_started_ms: time.optional(),
  /** The engine's weights were in memory. */
  weights_loaded_ms: time.optional(),
  /** The engine answered as healthy. */
  engine_healthy_ms: time.optional(),
  /** The worker gave the engine its first job. */
  first_job_ms: time.optional(),
});
export type StartTimes = z.infer<typeof StartTimes>;

/** Requests with a long prompt since the worker's start, which another engine may prefill. */
export const Prefills = z.object({
  /** The number of these requests by result: `done`, or why they ran whole. */
  results: z.record(z.string().max(32), count),
  /** The tokens of the prompts that were handed over. */
  tokens: count,
});
export type Prefills = z.infer<typeof Prefills>;

/**
 * The measurements of a worker at the moment of a heartbeat, each left out if it is unknown. The view shows them while
 * the worker is there.
 */
export const Measured = z.object({
  /** The requests that the engine runs, and those that wait inside it. */
  engine_running: count,
  engine_waiting: count,
  kv_cache_usage: share,
  /** Whether another engine has the GPU that this one shares; left out: it shares none. */
  engine_asleep: z.boolean(),
  /** The prompts that another engine prefills for the worker's engine; left out: there is no such engine. */
  prefills: Prefills,
  /** Tokens generated per second since the last heartbeat. */
  tokens_per_second: z.number().min(0),
  /** The median time to the first token since the last heartbeat, ms; left out where there was none. */
  first_token_ms: z.number().min(0),
});

/** The counts that stay true of a worker that is gone, each left out if unknown: the view shows them then too. */
export const Counted = z.object({
  /** Renewals of leases that got no answer in time, since the worker's start. */
  missed_renewals: count,
  /** The bytes of results on disk that the queue has not acknowledged. */
  spool_bytes: bytes,
});

/** The body of `POST /api/heartbeats`. Fields after `error_message` are ours; a base API ignores them. */
export const Heartbeat = z.object({
  instance_id: z.string().min(1).max(256),
  queue_id: z.string().min(1).max(256).optional(),
  status: z.enum(HEARTBEAT_STATUSES),
  error_message: z.string().max(16_384).optional(),
  config_id: z.string().max(256).optional(),
  worker_id: z.string().max(256).optional(),
  /**
   * The engine's activity while `starting`: starting, downloading, loading, compiling, capturing, warming, ready,
   * restarting.
   */
  phase: z.string().max(256).optional(),
  /** The time when the engine's phase began. */
  phase_since_ms: time.optional(),
  /** The share of the engine's phase that is done, where the engine reports it. */
  progress: share.optional(),
  start: StartTimes.optional(),
  engine: z.string().max(64).optional(),
  engine_version: z.string().max(128).optional(),
  worker_version: z.string().max(64).optional(),
  host: z.string().max(256).optional(),
  model: z.string().max(512).optional(),
  /** The number of jobs that run now. */
  running: count.optional(),
  capacity: count.optional(),
  ...Measured.partial().shape,
  ...Counted.partial().shape,
  /** Whether a provider takes the worker's machine away; left out: it does not, as far as the worker knows. */
  preempted: z.boolean().optional(),
  /** Requests that the engine put back to wait for want of KV cache, since its start. */
  preemptions: count.optional(),
  gpus: z.array(GpuReading).max(64).optional(),
  /** The remedy for `error_message`, which ends with it. */
  advice: z.string().max(1024).optional(),
  /** The seconds between two heartbeats, by which their reader knows when the next one is due. */
  interval_seconds: z.number().positive().optional(),
});
export type Heartbeat = z.infer<typeof Heartbeat>;

/** The longest stored message of a line, UTF-16 units; what our workers send is no longer. */
const MESSAGE_CHARACTERS = 4200;
/** The most items in one batch: the base sends 1,000 lines at most, and our workers 60 snapshots. */
const BATCH_ITEMS = 1000;

const instanceId = z.string().min(1).max(256);
const queueId = z.string().min(1).max(256).nullish();
const id = z.string().max(256).nullish();
const seconds = z.number().min(0).max(1e11);

/** A line of a worker's log, as workers of both protocols post it. */
export const LogLine = z.object({
  /** The time when the line was written, epoch seconds. */
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
  /** The time when the figures were read, epoch seconds. */
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
