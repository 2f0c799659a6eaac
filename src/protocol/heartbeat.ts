import * as z from 'zod';

/** `active` is what deployed workers say for `running`; `fatal` means the host itself is bad. */
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
/** From 0 to 1. */
const share = z.number().min(0).max(1);
/** Epoch ms by the worker's clock; a later one is no time that a browser could show. */
const time = z.number().int().min(0).max(8.64e15);

/** One GPU at one moment; what its driver does not tell is left out. */
export const GpuReading = z.object({
  name: z.string().max(256).optional(),
  memory_used_bytes: bytes.optional(),
  memory_total_bytes: bytes.optional(),
  utilization: share.optional(),
  temperature_celsius: z.number().optional(),
  power_watts: z.number().min(0).optional(),
});
export type GpuReading = z.infer<typeof GpuReading>;

/** When a container reached each step of its start; those it has not reached are left out. */
export const StartTimes = z.object({
  /** The platform created the container (`CASOLA_CREATED_AT`), or its first process ran. */
  created_ms: time.optional(),
  /** The engine was started. */
  engine_started_ms: time.optional(),
  /** Its weights were in memory. */
  weights_loaded_ms: time.optional(),
  /** It answered as healthy. */
  engine_healthy_ms: time.optional(),
  /** The first job went to it. */
  first_job_ms: time.optional(),
});
export type StartTimes = z.infer<typeof StartTimes>;

/** Requests with a long prompt, since the worker's start. */
export const Prefills = z.object({
  /** How many by how they went: `done`, or why they ran whole. */
  results: z.record(z.string().max(32), count),
  /** Of the prompts that were handed over. */
  tokens: count,
});
export type Prefills = z.infer<typeof Prefills>;

/** Body of `POST /api/heartbeats`. Fields after `error_message` are ours; a base API ignores them. */
export const Heartbeat = z.object({
  instance_id: z.string().min(1).max(256),
  queue_id: z.string().min(1).max(256).optional(),
  status: z.enum(HEARTBEAT_STATUSES),
  error_message: z.string().max(16_384).optional(),
  config_id: z.string().max(256).optional(),
  worker_id: z.string().max(256).optional(),
  /**
   * What the engine is doing while `starting`: starting, downloading, loading, compiling, capturing, warming, ready,
   * restarting.
   */
  phase: z.string().max(256).optional(),
  /** When that phase began. */
  phase_since_ms: time.optional(),
  /** How much of that phase is done, where the engine tells. */
  progress: share.optional(),
  start: StartTimes.optional(),
  engine: z.string().max(64).optional(),
  engine_version: z.string().max(128).optional(),
  worker_version: z.string().max(64).optional(),
  host: z.string().max(256).optional(),
  model: z.string().max(512).optional(),
  /** Jobs running now. */
  running: count.optional(),
  capacity: count.optional(),
  /** Requests that the engine runs, and that wait inside it. */
  engine_running: count.optional(),
  engine_waiting: count.optional(),
  kv_cache_usage: share.optional(),
  /** Whether another engine has the GPU that this one shares; left out: it shares none. */
  engine_asleep: z.boolean().optional(),
  /** What another engine prefills for its engine; left out: there is none. */
  prefills: Prefills.optional(),
  /** Requests that the engine put back to wait for want of KV cache, since its start. */
  preemptions: count.optional(),
  /** Tokens generated a second since the last heartbeat. */
  tokens_per_second: z.number().min(0).optional(),
  /** Median time to the first token since the last heartbeat, ms; left out where there was none. */
  first_token_ms: z.number().min(0).optional(),
  gpus: z.array(GpuReading).max(64).optional(),
  /** Renewals of leases that got no answer in time, since the worker's start. */
  missed_renewals: count.optional(),
  /** Results on disk that the queue has not acknowledged. */
  spool_bytes: bytes.optional(),
  /** What to do about `error_message`, which ends with it. */
  advice: z.string().max(1024).optional(),
  /** How the next state is to be expected from the last one's age. */
  interval_seconds: z.number().positive().optional(),
});
export type Heartbeat = z.infer<typeof Heartbeat>;
