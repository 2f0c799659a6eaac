import {
  EngineAnswerInvalid,
  EngineGone,
  EngineRequestInvalid,
  EngineUnreachable,
} from '../engine/client/types.ts';
import {
  engineErrorText,
  engineMessage,
  type Failure,
  type FailureCode,
  isRetryableStatus,
} from '../protocol/index.ts';

/** Thrown inside a run to end the job with this failure. */
export class JobFailure extends Error {
  override name = 'JobFailure';
  readonly failure: Failure;
  constructor(failure: Failure & { code: FailureCode }) {
    super(failure.message);
    this.failure = failure;
  }
}

/** Returns the failure of a request that would fail again anywhere. */
export function finalFailure(code: FailureCode, message: string): JobFailure {
  return new JobFailure({ message, code, retryable: false });
}

/** Returns the failure of a job whose engine began and did not finish: a part of an answer is no result. */
export function engineDied(message: string): JobFailure {
  return new JobFailure({ message, code: 'engine_died', retryable: true });
}

/**
 * Returns the failure that carries the engine's own error; its text is the base protocol's.
 * @param body the parsed body if it is JSON, else its text
 */
export function engineRefusal(status: number, body: unknown): JobFailure {
  return new JobFailure({
    message: engineErrorText(status, engineMessage(body)),
    code: codeOf(status),
    retryable: isRetryableStatus(status),
    http_status: status,
    body,
  });
}

/** Returns the failure for whatever a job's run has thrown. */
export function failureOf(error: unknown): Failure {
  if (error instanceof JobFailure) return error.failure;
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof EngineUnreachable) return { message, code: 'engine_unreachable', retryable: true };
  if (error instanceof EngineGone) return { message, code: 'engine_died', retryable: true };
  if (error instanceof EngineRequestInvalid) return { message, code: 'invalid_request', retryable: false };
  if (error instanceof EngineAnswerInvalid) return { message, code: 'engine_error', retryable: false };
  return { message: `the worker failed: ${message}`, code: 'worker_error', retryable: true };
}

function codeOf(status: number): FailureCode {
  if (status === 429 || status === 503) return 'engine_overloaded';
  return isRetryableStatus(status) ? 'engine_error' : 'engine_refused';
}
