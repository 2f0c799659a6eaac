import * as z from 'zod';
import { AdapterState } from './adapters.ts';
import { AnswerPart, PartialAnswer } from './moves.ts';

/**
 * Frames a worker sends to the queue. The first eight types are the deployed base protocol;
 * fields marked "extension" and the types after them are sent only to a queue that answered `registered`.
 * docs/protocol.md explains the conversation.
 */

const jobId = z.string().min(1).max(256);
const fence = z.number().int().min(0);

/** The version of the extensions; a peer that names none speaks the base protocol alone. */
export const PROTOCOL = 1;

/** Extension: what `job` said under this name, as it stands there. */
const account = z.string().max(4096).optional();

export const JobRef = z.object({ job_id: jobId, fence_token: fence });
export type JobRef = z.infer<typeof JobRef>;

/** An entry of an engine's `/v1/models`, every field as it stands there. */
export const ModelCard = z.looseObject({ id: z.string().max(512) });
export type ModelCard = z.infer<typeof ModelCard>;

/** Who is dialling, for people and for model routing. */
export const Instance = z.object({
  id: z.string().min(1).max(256),
  host: z.string().max(256).optional(),
  gpu: z.string().max(256).optional(),
  engine: z.string().max(64).optional(),
  engine_version: z.string().max(128).optional(),
  /** The model as configured. */
  model: z.string().max(512).optional(),
  /** Every name the engine answers to, from its `/v1/models`. */
  models: z.array(z.string().max(512)).max(1000).optional(),
  /** What it says of them there, in the same order; not of those that say too much. */
  model_cards: z.array(ModelCard).max(1000).optional(),
  /** How many requests the engine runs side by side, as far as the worker knows. */
  engine_requests: z.number().int().min(1).max(1e9).optional(),
  worker_version: z.string().max(64).optional(),
  /** US dollars of its machine, as its operator says; that of a launched machine is known already. */
  price_per_hour: z.number().min(0).max(1e6).optional(),
  /** Random, one per worker process: tells a reconnect from a restart that lost what was running. */
  boot_id: z.string().max(64).optional(),
  /** Random, kept by the machine: tells a worker that starts again from one elsewhere that was given the same id. */
  machine_id: z.string().max(64).optional(),
});
export type Instance = z.infer<typeof Instance>;

/** First frame of every connection; `capacity` is the number of slots. */
export const Register = z.object({
  type: z.literal('register'),
  worker_id: z.string().min(1).max(256),
  config_id: z.string().min(1).max(256),
  capacity: z.number().int().min(0).max(100_000).default(1),
  /** Extension: absent from a base worker. */
  protocol: z.number().int().optional(),
  instance: Instance.optional(),
  /** Still running, or finished and not yet acknowledged: a reconnect resumes these. */
  jobs: z.array(JobRef.extend({ account })).max(100_000).optional(),
  /** Extension: as in the frame `adapters`; left out: it loads none. */
  adapters: AdapterState.optional(),
});
export type Register = z.infer<typeof Register>;

/** Extension, on a settlement or a release: where the attempt's time went, ms since its job came to the worker. */
export const Timing = z.object({
  /** Its request left for the engine. */
  started_ms: z.number().min(0).optional(),
  /** The first bytes of an answer that the engine streams came back. */
  first_token_ms: z.number().min(0).optional(),
});
export type Timing = z.infer<typeof Timing>;

const tokens = z.number().int().min(0);

/** Extension, on a settlement: the tokens that the engine counted. */
export const Usage = z.object({
  prompt_tokens: tokens,
  completion_tokens: tokens,
  /** Of the prompt's those that the engine had in its cache. */
  cached_tokens: tokens.optional(),
  /** Of the completion's those that were spent on reasoning. */
  reasoning_tokens: tokens.optional(),
  /** The engine did not count, or not to the end: what the worker counted itself, which may be too little. */
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

/** Settles a job as succeeded; the body was PUT to the job's `result_upload_url`. */
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
  /** Of what was generated before it failed. */
  usage: Usage.optional(),
  /** Extension: what another attempt at a stored job goes on from. */
  partial: PartialAnswer.optional(),
  account,
});
export type JobError = z.infer<typeof JobError>;

/** Progress for people; renews the lease of a persisted job (the base worker's only renewal). */
export const JobProgress = z.object({
  type: z.literal('job_progress'),
  job_id: jobId,
  fence_token: fence.default(0),
  progress: z.number().min(0).max(1).optional(),
  status_message: z.string().max(4096).optional(),
});
export type JobProgress = z.infer<typeof JobProgress>;

/** Send nothing more, for good; the connection stays for results. */
const Drain = z.object({ type: z.literal('drain') });
/** Stop dispatch until `resume`. */
const Pause = z.object({ type: z.literal('pause') });
const Resume = z.object({ type: z.literal('resume') });

/** Extension: every lease this worker holds, in one frame, and what has come of the answers of stored jobs: `timing` with its first part. */
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

/** Extension: back to pending, no attempt spent. */
export const JobRelease = z.object({
  type: z.literal('job_release'),
  job_id: jobId,
  fence_token: fence,
  reason: z.enum(RELEASE_REASONS),
  timing: Timing.optional(),
  /** What another attempt at a stored job goes on from. */
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
  /** The engine shares its GPU, and what it is given waits for its turn; left out: it does not. */
  awaits_turn: z.boolean().optional(),
  /** Of attempts by their fence tokens, where it has changed: tokens generated by now, as far as the worker can count. */
  generated: z
    .array(z.tuple([fence, tokens]))
    .max(100_000)
    .optional(),
});
export type Load = z.infer<typeof Load>;

/** Extension: an adapter was loaded or unloaded, or could not be loaded. */
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
