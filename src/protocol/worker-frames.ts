import * as z from 'zod';
import { AdapterState } from './adapters.ts';
import { AnswerPart, ModelIdentity, PartialAnswer } from './moves.ts';

/**
 * Frames that a worker sends to the queue. The first eight types are the deployed base protocol; fields marked
 * "extension" and the types after them are sent only to a queue that answered `registered`. docs/protocol.md explains
 * the conversation.
 */

const jobId = z.string().min(1).max(256);
const fence = z.number().int().min(0);

/** The version of the extensions; a peer that names none speaks the base protocol alone. */
export const PROTOCOL = 1;

/** Extension: the `account` of the frame `job`, sent back unchanged. */
const account = z.string().max(4096).optional();

export const JobRef = z.object({ job_id: jobId, fence_token: fence });
export type JobRef = z.infer<typeof JobRef>;

/** An entry of an engine's `/v1/models`, every field as it stands there. */
export const ModelCard = z.looseObject({ id: z.string().max(512) });
export type ModelCard = z.infer<typeof ModelCard>;

/** The version of what a worker is started with. People read and type it, so it has no odd characters. */
export const Version = z.string().regex(/^[\w.:+-]{1,64}$/, {
  error: 'expected 1 to 64 letters, digits and any of "_", ".", ":", "+" and "-"',
});

/** A worker that dials, described for people and for model routing. */
export const Instance = z.object({
  id: z.string().min(1).max(256),
  host: z.string().max(256).optional(),
  gpu: z.string().max(256).optional(),
  engine: z.string().max(64).optional(),
  engine_version: z.string().max(128).optional(),
  /** The model as configured. */
  model: z.string().max(512).optional(),
  /** Every name that the engine answers to, from its `/v1/models`. */
  models: z.array(z.string().max(512)).max(1000).optional(),
  /** The engine's entries for `models` in `/v1/models`, in the same order; entries that are too long are left out. */
  model_cards: z.array(ModelCard).max(1000).optional(),
  /** The number of requests that the engine runs side by side, as far as the worker knows. */
  engine_requests: z.number().int().min(1).max(1e9).optional(),
  worker_version: z.string().max(64).optional(),
  /** The version of what the worker was started with, as its launcher or operator names it. */
  version: Version.optional(),
  /** The identity of the worker's model: answers are moved between workers of equal models alone. */
  model_identity: ModelIdentity.optional(),
  /**
   * US dollars an hour of the worker's machine, as its operator says; the scheduler knows the price of a launched
   * machine.
   */
  price_per_hour: z.number().min(0).max(1e6).optional(),
  /** Random, one per worker process: tells a reconnect from a restart that lost what was running. */
  boot_id: z.string().max(64).optional(),
  /** Random, kept by the machine: tells a worker that starts again from one elsewhere that was given the same id. */
  machine_id: z.string().max(64).optional(),
});
export type Instance = z.infer<typeof Instance>;

/** The first frame of every connection; `capacity` is the number of slots. */
export const Register = z.object({
  type: z.literal('register'),
  worker_id: z.string().min(1).max(256),
  config_id: z.string().min(1).max(256),
  capacity: z.number().int().min(0).max(100_000).default(1),
  /** Extension: the version of the extensions; absent from a base worker. */
  protocol: z.number().int().optional(),
  instance: Instance.optional(),
  /** The attempts that still run, or are finished and not yet acknowledged: a reconnect resumes them. */
  jobs: z.array(JobRef.extend({ account })).max(100_000).optional(),
  /** Extension: the state of the worker's adapters, as in the frame `adapters`; left out: it loads none. */
  adapters: AdapterState.optional(),
});
export type Register = z.infer<typeof Register>;

/** Extension, on a settlement or a release: the course of the attempt, ms since its job came to the worker. */
export const Timing = z.object({
  /** The time when the request left for the engine. */
  started_ms: z.number().min(0).optional(),
  /** The time when the first bytes of an answer that the engine streams came back. */
  first_token_ms: z.number().min(0).optional(),
});
export type Timing = z.infer<typeof Timing>;

const tokens = z.number().int().min(0);

/** Extension, on a settlement: the tokens that the engine counted. */
export const Usage = z.object({
  prompt_tokens: tokens,
  completion_tokens: tokens,
  /** The tokens of the prompt that the engine had in its cache. */
  cached_tokens: tokens.optional(),
  /** The tokens of the completion that were spent on reasoning. */
  reasoning_tokens: tokens.optional(),
  /** Whether the worker counted, perhaps too few, because the engine did not count, or not to the end. */
  estimated: z.boolean().optional(),
  /** The engine's own name for the model. */
  model: z.string().max(512).optional(),
});
export type Usage = z.infer<typeof Usage>;

/** Settles a job as succeeded. */
export const JobResult = z.object({
  type: z.literal('job_result'),
  job_id: jobId,
  fence_token: fence.default(0),
  result: z.record(z.string(), z.unknown()),
  timing: Timing.optional(),
  usage: Usage.optional(),
  account,
});
export type JobResult = z.infer<typeof JobResult>;

/** Settles a job as succeeded; the worker has PUT the body to the job's `result_upload_url`. */
export const JobResultRef = z.object({
  type: z.literal('job_result_ref'),
  job_id: jobId,
  fence_token: fence.default(0),
  timing: Timing.optional(),
  usage: Usage.optional(),
  account,
});
export type JobResultRef = z.infer<typeof JobResultRef>;

/** Ends an attempt as failed; the extension fields let the caller see the engine's own answer. */
export const JobError = z.object({
  type: z.literal('job_error'),
  job_id: jobId,
  fence_token: fence.default(0),
  error: z.string(),
  code: z.string().max(64).optional(),
  retryable: z.boolean().optional(),
  http_status: z.number().int().min(100).max(599).optional(),
  body: z.unknown().optional(),
  timing: Timing.optional(),
  /** The tokens that were generated before the attempt failed. */
  usage: Usage.optional(),
  /** Extension: the partial answer from which another attempt at a stored job continues. */
  partial: PartialAnswer.optional(),
  account,
});
export type JobError = z.infer<typeof JobError>;

/** Reports progress for people; renews the lease of a persisted job (the base worker's only renewal). */
export const JobProgress = z.object({
  type: z.literal('job_progress'),
  job_id: jobId,
  fence_token: fence.default(0),
  progress: z.number().min(0).max(1).optional(),
  status_message: z.string().max(4096).optional(),
});
export type JobProgress = z.infer<typeof JobProgress>;

/** Asks for no more jobs, for good; the connection stays for results. */
const Drain = z.object({
  type: z.literal('drain'),
  /**
   * Extension: `preempted` if a provider takes the worker's machine away; left out: the worker was told to end. A
   * second `drain` may say so later.
   */
  reason: z.enum(['preempted']).optional().catch(undefined),
});
/** Asks for no jobs until `resume`. */
const Pause = z.object({ type: z.literal('pause') });
const Resume = z.object({ type: z.literal('resume') });

/**
 * Extension: renews every lease that this worker holds, and sends what it has generated of the answers of stored jobs;
 * `timing` comes with an answer's first part.
 */
export const Renew = z.object({
  type: z.literal('renew'),
  jobs: z.array(JobRef.extend({ part: AnswerPart.optional(), timing: Timing.optional() })).max(100_000),
});
export type Renew = z.infer<typeof Renew>;

export const RELEASE_REASONS = [
  'draining',
  'overloaded',
  'deadline',
  'not_started',
  'engine_restarting',
] as const;

/** Extension: returns a job to pending, without spending an attempt. */
export const JobRelease = z.object({
  type: z.literal('job_release'),
  job_id: jobId,
  fence_token: fence,
  reason: z.enum(RELEASE_REASONS),
  timing: Timing.optional(),
  /** The partial answer from which another attempt at a stored job continues. */
  partial: PartialAnswer.optional(),
});
export type JobRelease = z.infer<typeof JobRelease>;
export type ReleaseReason = (typeof RELEASE_REASONS)[number];

/** Extension: the engine's live gauges. `slots_free` replaces capacity minus running for dispatch. */
export const Load = z.object({
  type: z.literal('load'),
  running: z.number().min(0),
  waiting: z.number().min(0),
  kv_cache_usage: z.number().min(0).max(1),
  slots_free: z.number().int().min(0),
  /** Whether the engine shares its GPU, so that requests given to it wait for its turn; left out: it does not. */
  awaits_turn: z.boolean().optional(),
  /**
   * The tokens generated by now, as far as the worker can count, by the fence tokens of the attempts where the number
   * has changed.
   */
  generated: z
    .array(z.tuple([fence, tokens]))
    .max(100_000)
    .optional(),
});
export type Load = z.infer<typeof Load>;

/** Extension: reports that an adapter was loaded or unloaded, or could not be loaded. */
export const AdaptersFrame = AdapterState.extend({ type: z.literal('adapters') });
export type AdaptersFrame = z.infer<typeof AdaptersFrame>;

export const WorkerFrame = z.discriminatedUnion('type', [
  Register,
  JobResult,
  JobResultRef,
  JobError,
  JobProgress,
  Drain,
  Pause,
  Resume,
  Renew,
  JobRelease,
  Load,
  AdaptersFrame,
]);
export type WorkerFrame = z.infer<typeof WorkerFrame>;
