import type { Outcome } from '../../asking/attempt-loop.ts';
import { type Failure, parseEngineError } from '../../protocol/index.ts';
import type { RequestFacts } from '../../request-facts/body-facts.ts';
import { type ErrorOf, engineResponse, errorResponse, HttpError, retryAfter } from '../errors.ts';
import { answerFromResult, isGivenUp } from './base-answer.ts';

/** A request's facts that its response needs beside its outcome. */
export interface Asked {
  jobId: string;
  facts: RequestFacts;
  errorOf: ErrorOf;
}

/** Puts a request's outcome into HTTP. */
export function respond(outcome: Outcome, asked: Asked, nowMs: number): Response {
  // The answer stays as the relay made it, with the headers that it was told to add: another Response costs as much as
  // a chunk.
  if (outcome.kind === 'answer') return outcome.answer;
  const response = responseOf(outcome, asked, nowMs);
  response.headers.set('x-job-id', asked.jobId);
  const more = outcome.kind === 'result' || outcome.kind === 'refused' ? outcome.headers : undefined;
  for (const [name, value] of Object.entries(more ?? {})) response.headers.set(name, value);
  return response;
}

function responseOf(
  outcome: Exclude<Outcome, { kind: 'answer' }>,
  { facts, errorOf }: Asked,
  nowMs: number,
): Response {
  switch (outcome.kind) {
    case 'result': {
      if (isGivenUp(outcome.result)) {
        const message = 'The engine ended the generation before it was finished.';
        return errorResponse(new HttpError(502, message, 'engine_died'), errorOf);
      }
      const answer = answerFromResult(outcome.result, facts, Math.floor(nowMs / 1000));
      if (answer) return answer;
      const message = `Worker ${outcome.worker_id} finished the job with a result that is no answer to this route.`;
      return errorResponse(new HttpError(502, message, 'worker_error'), errorOf);
    }
    case 'failed':
      return failureResponse(outcome.failure, outcome.attempts, errorOf);
    case 'refused':
      return rejected(outcome, errorOf);
    case 'gone':
      // The caller has left and does not read this; proxies log such requests as 499.
      return errorResponse(new HttpError(499, 'The caller hung up.', 'caller_gone'), errorOf);
  }
}

const STATUS_OF_CODE: Record<string, number> = {
  invalid_request: 400,
  engine_refused: 400,
  unsupported_job_type: 400,
  unsupported_by_worker: 501,
  cancelled: 409,
  too_large: 413,
  engine_overloaded: 503,
  adapter_failed: 503,
  engine_unreachable: 503,
  deadline: 504,
};

/**
 * Returns the response to a request that failed; where the engine reported the failure, in the engine's words.
 * @param attempts the number of attempts that were made
 */
export function failureResponse(failure: Failure, attempts: number, errorOf?: ErrorOf): Response {
  if (failure.http_status && failure.body !== undefined) {
    return engineResponse(failure.http_status, JSON.stringify(failure.body), 'application/json');
  }
  const said = parseEngineError(failure.message);
  if (said) return errorResponse(new HttpError(said.status, said.message, failure.code), errorOf);
  // A job that workers only released until the caller's wait ended is not at fault: the workers are busy or leaving.
  const status =
    errorStatus(failure.http_status) ?? STATUS_OF_CODE[failure.code] ?? (attempts === 0 ? 503 : 502);
  const tried = attempts > 1 ? ` (${attempts} attempts were made)` : '';
  const headers = status === 503 ? retryAfter(5) : {};
  return errorResponse(new HttpError(status, `${failure.message}${tried}`, failure.code, headers), errorOf);
}

/** Returns an engine's status where it can go to a caller as that of a failure. */
function errorStatus(status: number | undefined): number | undefined {
  return status !== undefined && status >= 400 && status <= 599 ? status : undefined;
}

const REJECTIONS = {
  unknown_model: { status: 404, code: 'model_not_found' },
  ambiguous_model: { status: 400, code: 'model_required' },
  no_worker: { status: 503, code: 'no_worker' },
  worker_gone: { status: 404, code: 'response_not_found' },
  no_slot: { status: 503, code: 'no_slot' },
  queue_full: { status: 429, code: 'queue_full' },
  over_limit: { status: 429, code: 'rate_limit_exceeded' },
  deadline: { status: 503, code: 'deadline' },
  cancelled: { status: 409, code: 'cancelled' },
} as const;

function rejected(refusal: Extract<Outcome, { kind: 'refused' }>, errorOf: ErrorOf): Response {
  const { status, code } = REJECTIONS[refusal.reason];
  const headers = status === 503 || status === 429 ? retryAfter(refusal.retry_after_seconds) : {};
  return errorResponse(new HttpError(status, refusal.message, code, headers), errorOf);
}
