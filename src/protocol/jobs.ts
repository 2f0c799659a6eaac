import * as z from 'zod';
import { BASE_TASKS } from './base.ts';
import { MAX_ATTEMPTS } from './bounds.ts';
import { isPlainPath } from './engine-routes.ts';
import { Continues } from './moves.ts';
import { closestName } from './text.ts';
import { Waiting } from './waiting.ts';
import { Usage } from './worker-frames.ts';

/**
 * The codes of a job's failure, which decide what happens next.
 *
 * Final: the same request would fail again (`invalid_request`, `unsupported_job_type`, `engine_refused`), or there is
 * no worker that could run it (`unsupported_by_worker`).
 * Retryable: another attempt may succeed (`engine_error`, `engine_died`, `engine_unreachable`, `engine_overloaded`,
 * `adapter_failed`).
 * Decided by the queue: `lease_expired` and `worker_died` (charged and retried), `deadline`, `cancelled`.
 */
const FAILURE_CODES = [
  'invalid_request',
  'unsupported_job_type',
  'unsupported_by_worker',
  'engine_refused',
  'engine_error',
  'engine_died',
  'engine_unreachable',
  'engine_overloaded',
  'adapter_failed',
  'payload_unreachable',
  'too_large',
  'cancelled',
  'lease_expired',
  'worker_died',
  'deadline',
  'worker_error',
] as const;
export type FailureCode = (typeof FAILURE_CODES)[number];

/** A failure: the message for the caller, and what the queue needs to decide about another attempt. */
export const Failure = z.object({
  message: z.string(),
  /** The failure's code. An extended peer sends one of FAILURE_CODES; a newer peer may send others. */
  code: z.string().default('worker_error'),
  retryable: z.boolean().default(false),
  /** The engine's own HTTP status, where it gave one. */
  http_status: z.number().int().min(100).max(599).optional(),
  /** The engine's own body, parsed where it was JSON. */
  body: z.unknown().optional(),
  /**
   * The tokens that a stored job's attempt used until it ended, as they are counted; left out: none are known. Of a job
   * that was ended while it ran they are what had come by then (`estimated`) until its worker reports all of them.
   */
  usage: Usage.omit({ model: true }).optional(),
});
export type Failure = z.infer<typeof Failure>;

/** A failure as one attempt left it in the job's record. */
export const AttemptError = Failure.extend({
  attempt: z.number().int(),
  fence_token: z.number().int(),
  worker_id: z.string().optional(),
  /** The ISO time at the queue. */
  at: z.string(),
});
export type AttemptError = z.infer<typeof AttemptError>;

/**
 * Returns whether an engine's HTTP status is worth another attempt: 408, 429 and 5xx are, but for 501, by which
 * llama.cpp says what it was not started for. A status that blames the caller's request is not.
 */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status !== 501);
}

const JOB_TYPE = /^[\w.:/-]{1,128}$/;
const JOB_ID = /^[\w.:-]{1,128}$/;

/**
 * The kind of work. Any name that is no misspelling of a known one goes to the workers of its pool, which know whether
 * they do it. This project's own kinds are `chat_completion`, `llm_inference`, `engine_request` (any route of the
 * engine, body and answer passed through whole), `runpod` (what RunPod's worker takes, runpod.ts) and the tasks of the
 * base protocol (base.ts).
 */
const JobType = z
  .string()
  .regex(JOB_TYPE, 'must be 1 to 128 letters, digits or _ . : / -, such as "chat_completion"')
  .refine((type) => misspeltType(type) === null, {
    error: ({ input }) =>
      `there is no type "${input}"; did you mean ${misspeltType(String(input))}? Types of this queue are ${NAMED_TYPES.join(', ')}, and any name that a worker of your own knows`,
  });

const NAMED_TYPES = ['chat_completion', 'llm_inference', 'engine_request', 'runpod'];
const KNOWN_TYPES: readonly string[] = [...NAMED_TYPES, ...Object.values(BASE_TASKS)];
/**
 * The most letters in which a misspelt type differs. Other people's types differ in more: fal/text-to-image in five.
 */
const MISSPELT_LETTERS = 2;

/** Returns the type that a misspelt one means, or null for a type that is known here or that others may know. */
function misspeltType(type: string): string | null {
  return KNOWN_TYPES.includes(type) ? null : closestName(type, KNOWN_TYPES, MISSPELT_LETTERS);
}

/**
 * States of a job, in the queue's one table.
 *
 * - `pending`   → `leased` (dispatch), `cancelled`, `expired` (deadline)
 * - `leased`    → `succeeded` (result), `failed` (final error, or attempts spent), `cancelled`, `expired`, `pending`
 *   (release, retryable error with attempts left, lease lost)
 * - `succeeded`, `failed`, `cancelled`, `expired` are settled, and final but for one thing: a caller may request
 *   another try of a job that `failed` or `expired` (RunPod's `retry`), → `pending`.
 */
export const JOB_STATES = ['pending', 'leased', 'succeeded', 'failed', 'cancelled', 'expired'] as const;
export type JobState = (typeof JOB_STATES)[number];

export function isJobState(text: string): text is JobState {
  return (JOB_STATES as readonly string[]).includes(text);
}

/** Returns whether a job in this state is over. */
export function isSettled(state: JobState): boolean {
  return state !== 'pending' && state !== 'leased';
}

/** The body of `POST /api/jobs` (one, or an array of these). */
export const JobSubmission = z.object({
  /** The caller's own id: a second submission with the same id and payload returns the same job. */
  id: z
    .string()
    .regex(JOB_ID, 'must be 1 to 128 letters, digits or _ . : -')
    .regex(/^(?!\.{1,2}$)/, 'must not be "." or "..": no address can hold them')
    .optional(),
  job_type: JobType,
  payload: z.record(z.string(), z.unknown()),
  /** The pool whose workers may take the job; left out, the payload's model or the only pool there is decides. */
  config_id: z.string().min(1).max(256).optional(),
  /** The job's priority: higher goes first. Left out: the default of the caller's token, 0 for most. */
  priority: z.number().int().min(-1000).max(1000).optional(),
  max_attempts: z.number().int().min(1).max(100).default(MAX_ATTEMPTS),
  /** The time limit, counted from acceptance; a job not settled by then is `expired`. */
  deadline_seconds: z
    .number()
    .positive()
    .max(30 * 86_400)
    .optional(),
  /** Whether the answer can be read while it is made, at `/api/jobs/{id}/stream`; for an `engine_request` only. */
  stream: z.boolean().optional(),
  /** The address to which the queue posts the job's settlement, at a host that it allows. */
  webhook: z.string().max(2048).optional(),
});
export type JobSubmission = z.infer<typeof JobSubmission>;

/** The body of `GET /api/jobs/{id}`. Times are ISO strings of the queue's clock. */
export const JobView = z.object({
  id: z.string(),
  job_type: z.string(),
  config_id: z.string(),
  state: z.enum(JOB_STATES),
  priority: z.number(),
  /**
   * The attempts so far, including the one that runs or ended the job; an attempt that was given back uncharged does
   * not count.
   */
  attempts: z.number(),
  max_attempts: z.number(),
  stream: z.boolean(),
  fence_token: z.number(),
  worker_id: z.string().nullable(),
  /** The share done, 0..1, and the text from the worker's last `job_progress`. */
  progress: z.number().nullable(),
  status_message: z.string().nullable(),
  created_at: z.string(),
  /** The time at which the job becomes `expired` unless it is settled. */
  deadline_at: z.string().nullable(),
  leased_at: z.string().nullable(),
  /**
   * The times when the newest attempt reached the engine and when its first token came; null if its worker did not
   * report it.
   */
  started_at: z.string().nullable(),
  first_token_at: z.string().nullable(),
  settled_at: z.string().nullable(),
  /** The owner of the job: the name of the token that submitted it, or its tenant; null: no tokens were configured. */
  tenant: z.string().nullable(),
  /** The trace that the job's submission belongs to; null: it was in none, or in one together with others. */
  trace_id: z.string().nullable(),
  /** The reason why the job waits, while it waits. */
  waiting: Waiting.optional(),
  result: z.unknown(),
  /** Whether the caller may not read the result; `result` is then null even if there is one. */
  withheld: z.boolean().optional(),
  error: Failure.nullable(),
  attempt_errors: z.array(AttemptError),
});
export type JobView = z.infer<typeof JobView>;

/** The most characters in the path of an engine's route, its query included. */
export const MAX_PATH_CHARACTERS = 2048;

const CONTENT_TYPE = /^[\w.+-]+\/[\w.+-]+(?: *;[\x20-\x7e]*)?$/;

export const ContentType = z
  .string()
  .max(256)
  .regex(
    CONTENT_TYPE,
    'must be a content type, such as "application/json" or "multipart/form-data; boundary=x"',
  );

/**
 * The payload of an `engine_request`. The body is text, or bytes where a frame carries it as such (`pack`),
 * so it reaches the engine byte for byte: no number is rounded, no field dropped.
 */
export const EngineRequest = z.object({
  method: z.enum(['GET', 'POST', 'DELETE']).default('POST'),
  path: z
    .string()
    .startsWith('/')
    .max(MAX_PATH_CHARACTERS)
    .refine(
      isPlainPath,
      'must be a plain path: visible ASCII characters, without "//", "." and ".." segments',
    ),
  body: z.union([z.string(), z.instanceof(Uint8Array)]).optional(),
  /** The request's body if it is no text. */
  body_base64: z.base64().optional(),
  content_type: ContentType.optional(),
  /** Headers for the engine; the worker drops those that request-headers.ts does not list. */
  headers: z.record(z.string().max(64), z.string().max(4096)).optional(),
  /** The prompt's length if the request asks for the rest of an answer. */
  continues: Continues.optional(),
});
export type EngineRequest = z.infer<typeof EngineRequest>;

/** An ISO time of the queue's clock. */
const time = z.iso.datetime();
const count = z.number().int().min(0);

const ShortError = z.object({ code: z.string(), message: z.string() });

/** A job in a list: without payload and result, its error shortened. */
export const ListedJob = JobView.omit({
  fence_token: true,
  trace_id: true,
  result: true,
  withheld: true,
  error: true,
  attempt_errors: true,
}).extend({ error: ShortError.nullable() });
export type ListedJob = z.infer<typeof ListedJob>;

/** A step of a job's ledger. */
export const LedgerStep = z.object({
  at: time,
  /** The name of the step; queue/events/event.ts lists them. */
  step: z.string(),
  attempt: count.describe('From 1; 0 before the first.'),
  fence_token: count,
  worker_id: z.string().nullable(),
  detail: z.string().nullable(),
});
export type LedgerStep = z.infer<typeof LedgerStep>;

/** A job's ledger. */
export const LedgerView = z.object({ job_id: z.string(), steps: z.array(LedgerStep) });
export type LedgerView = z.infer<typeof LedgerView>;
