import * as z from 'zod';
import { PartialAnswer } from './moves.ts';
import { TraceContext } from './request-headers.ts';
import { JobRef } from './worker-frames.ts';

/**
 * Frames that a queue sends to a worker. `job`, `job_revoked`, `job_result_ref` and `error` are the base protocol; the
 * other frames, and the extra fields of `job`, appear only after the worker offered `protocol`.
 */

const jobId = z.string().min(1);

/** Answers `register` when the worker offered `protocol`. */
export const Registered = z.object({
  type: z.literal('registered'),
  protocol: z.number().int(),
  session_id: z.string(),
  /** The address of the answer socket, relative to the control socket's URL. */
  answers_url: z.string(),
  lease_seconds: z.number().positive(),
  renew_after_seconds: z.number().positive(),
  /** The period of pings on the control socket; left out: bounds.PING_SECONDS. */
  ping_seconds: z.number().positive().optional(),
  /** The jobs from `register.jobs` that the worker still owns. */
  resumed: z.array(z.string()).default([]),
  /** The jobs that the worker no longer owns: it aborts them and sends nothing more of them. */
  revoked: z.array(z.object({ job_id: z.string(), reason: z.string() })).default([]),
});
export type Registered = z.infer<typeof Registered>;

/** The trace that a job belongs to, and the place of this attempt in it. */
export const JobTrace = TraceContext.partial().extend({
  /** The time from the job's submission to this frame. */
  queued_ms: z.number().min(0).optional(),
  /** The number of attempts that may follow this one. */
  attempts_left: z.number().int().min(0).optional(),
  /** The fence token of the attempt before. */
  previous_fence: z.number().int().min(0).optional(),
});
export type JobTrace = z.infer<typeof JobTrace>;

/** Gives the worker one job. Everything from `job_type` on is an extension, absent from a base queue. */
export const Job = z.object({
  type: z.literal('job'),
  job_id: jobId,
  mode: z.enum(['transient', 'persisted']).default('transient'),
  config_id: z.string().optional(),
  /**
   * The payload as the caller sent it. The type stays open: null or a list is a caller's mistake, which the worker
   * answers with `job_error`.
   */
  payload: z.unknown(),
  fence_token: z.number().int().min(0).default(0),
  payload_url: z.string().optional(),
  result_upload_url: z.string().optional(),
  job_type: z.string().optional(),
  /** The number of the attempt; 1 for the first that may be charged. */
  attempt: z.number().int().min(1).optional(),
  /** The time left, never a date: clocks are not compared across machines. */
  deadline_ms: z.number().optional(),
  lease_seconds: z.number().positive().optional(),
  trace: JobTrace.optional(),
  /**
   * The number under which the answer's bytes go to the relay, set where a caller waits. In the mode `persisted` they
   * are a copy for those who watch the job, and the result is settled as for any stored job.
   */
  stream_id: z.number().int().min(0).max(0xffff_ffff).optional(),
  /**
   * The party that the job's tokens are counted for, in the queue's own words. The worker sends it back with the
   * settlement: the job of a waiting caller is in the queue's memory alone, and a queue that has restarted knows no
   * more of it.
   */
  account: z.string().max(4096).optional(),
  /** The part of a stored job's answer that an earlier attempt has generated. */
  partial: PartialAnswer.optional(),
  /**
   * The job's priority in the queue, higher first; 0 where it is left out. The engine gets it, where the request names
   * none itself.
   */
  priority: z.number().int().min(-1000).max(1000).optional(),
});
export type Job = z.infer<typeof Job>;

const REVOKE_REASONS = ['cancelled', 'caller_gone', 'lease_lost', 'superseded', 'deadline'] as const;

/**
 * Takes a job from the worker, which aborts the engine request and settles nothing. A base queue may give any reason.
 */
const JobRevoked = z.object({ type: z.literal('job_revoked'), job_id: jobId, reason: z.string() });
export type RevokeReason = (typeof REVOKE_REASONS)[number];

/** Acknowledges the worker's frame of the same name, in the base protocol. */
const JobResultRefAck = z.object({ type: z.literal('job_result_ref'), job_id: jobId });

/** Says that the last frame was not understood. */
const ErrorFrame = z.object({ type: z.literal('error'), message: z.string() });

const ACK_OUTCOMES = ['accepted', 'stale', 'unknown'] as const;
export type AckOutcome = (typeof ACK_OUTCOMES)[number];

/** Extension `ack`: the settlement is on disk (or void); the worker may forget it. */
export const Ack = z.object({
  type: z.literal('ack'),
  job_id: jobId,
  fence_token: z.number().int(),
  outcome: z.enum(ACK_OUTCOMES),
});
export type Ack = z.infer<typeof Ack>;

/** Extension `renewed`: answers the worker's `renew`. */
export const Renewed = z.object({
  type: z.literal('renewed'),
  /** The length of the renewed leases, from the moment the worker sent `renew`. */
  lease_seconds: z.number().positive(),
  /** The attempts in `renew` whose leases the worker has lost. */
  lost: z.array(JobRef).default([]),
  /**
   * The attempts whose answers the worker has to send again from their first part: the queue lacks what came before the
   * last part.
   */
  again: z.array(JobRef).optional(),
});
export type Renewed = z.infer<typeof Renewed>;

export const QueueFrame = z.discriminatedUnion('type', [
  Registered,
  Job,
  JobRevoked,
  JobResultRefAck,
  ErrorFrame,
  Ack,
  Renewed,
]);
export type QueueFrame = z.infer<typeof QueueFrame>;

/**
 * Pings on both sockets of an extended peer: exact texts, because the queue answers them without waking its object
 * (`setWebSocketAutoResponse` compares the whole string).
 */
export const PING_TEXT = '{"type":"ping"}';
export const PONG_TEXT = '{"type":"pong"}';

/** WebSocket close codes and what the worker does on each. */
export const CLOSE = {
  /** The work is finished: do not reconnect. */
  done: 1000,
  /** The queue received nothing from the worker for two ping periods; a worker that still lives dials again. */
  silent: 1001,
  /** The queue restarts: reconnect at once. */
  restarting: 1012,
  /** The token is not known: fatal, a retry cannot help. */
  unauthorized: 4401,
  /** The token is known but lacks the scope: fatal. */
  forbidden: 4403,
  /** Another worker registered with this id: the newer one wins, this one ends. */
  superseded: 4409,
  /** A frame was larger than the peer takes. */
  tooLarge: 4413,
} as const;

/** Returns whether dialling again with the same settings is pointless after a close. */
export function isFatalClose(code: number): boolean {
  return code === CLOSE.unauthorized || code === CLOSE.forbidden || code === CLOSE.superseded;
}
