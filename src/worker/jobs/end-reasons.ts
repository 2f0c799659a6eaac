import type { Log } from '../../process/log.ts';
import type {
  BrokenReason,
  Failure,
  FailureCode,
  Job,
  JobError,
  ReleaseReason,
} from '../../protocol/index.ts';
import type { AnswerStream } from '../answers/answer-stream.ts';
import { idsOf, type RunningJob } from '../run/running-job.ts';

/** The most characters of a failed job's error in the log. */
const LOGGED_ERROR_CHARACTERS = 1000;

/**
 * The reasons for which a persisted job of a base queue is left to its lease when it is released: an error would end
 * the job for good.
 */
export const LEFT_TO_ITS_LEASE = new Set<ReleaseReason>(['draining', 'not_started']);

/**
 * Returns the failure of a job whose deadline passed while it ran, with how long it ran here.
 * @param nowMs by the worker's clock
 */
export function deadlinePassed(running: RunningJob, nowMs: number): Failure {
  const ran = `it ran ${seconds(running.elapsedMs(nowMs))}`;
  const { first_token_ms } = running.timing() ?? {};
  const first = first_token_ms === undefined ? '' : `, its first token came after ${seconds(first_token_ms)}`;
  const message = `the deadline of the job passed: ${ran}${first}`;
  return { message, code: 'deadline', retryable: false };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

export const NOT_RELAYED: BrokenReason = {
  message: 'a job of this kind gives its result to the queue only',
  code: 'invalid_request',
  retryable: false,
};

/** Returns the reason that a waiting caller gets for a job that was released. */
export function brokenBy(reason: ReleaseReason): BrokenReason {
  return { message: `the worker released the job: ${reason}`, code: reason, retryable: true };
}

/** The reasons of a revocation that end the job: no caller is left, or the queue informs the relay. */
const OVER: ReadonlyMap<string, FailureCode> = new Map([
  ['caller_gone', 'cancelled'],
  ['cancelled', 'cancelled'],
  ['deadline', 'deadline'],
]);

/**
 * Returns the failure that reports what a revoked attempt used; null: nothing is sent, as another worker has the job.
 */
export function overBy(reason: string): Failure | null {
  const code = OVER.get(reason);
  return code === undefined
    ? null
    : { message: `the queue took the request away: ${reason}`, code, retryable: false };
}

/** Ends the stream of a job that the queue took back: a queue may have forgotten it while its caller still waits. */
export function endRevoked(stream: AnswerStream | null, reason: string): void {
  if (OVER.has(reason)) {
    stream?.drop();
    return;
  }
  const message = `the queue took the request away: ${reason}`;
  stream?.break({ message, code: 'lease_expired', retryable: true });
}

/** Logs one line for each attempt that failed, as a warning if the engine or this worker may be the cause. */
export function logFailure(log: Log, job: Job, { code, http_status, retryable, error }: JobError): void {
  const fields = { ...idsOf(job), code, ...(http_status === undefined ? {} : { http_status }) };
  log[retryable ? 'warn' : 'info'](fields, `job failed: ${error.slice(0, LOGGED_ERROR_CHARACTERS)}`);
}
