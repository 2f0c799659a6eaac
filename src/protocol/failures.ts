import * as z from 'zod';

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

/** One failure: the message for the caller, and what the queue needs to decide about another attempt. */
export const Failure = z.object({
  message: z.string(),
  /** One of FAILURE_CODES from an extended peer; a newer peer may send others. */
  code: z.string().default('worker_error'),
  retryable: z.boolean().default(false),
  /** The engine's own HTTP status, where it gave one. */
  http_status: z.number().int().min(100).max(599).optional(),
  /** The engine's own body, parsed where it was JSON. */
  body: z.unknown().optional(),
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
