import type { EngineAnswer } from '../../engine/client/types.ts';
import { bounds, type EngineError, type JobError } from '../../protocol/index.ts';
import { engineDied, engineRefusal, finalFailure, JobFailure } from '../failure.ts';
import type { Settlement } from '../jobs/settlement.ts';
import type { Attempt } from './attempt.ts';

/** A failing engine may take this long to show it, ms. */
const HEALTH_WITHIN_MS = 1000;

export function gaveUp(): JobFailure {
  return engineDied('the engine ended the generation before it was finished');
}

export function cutShort(): JobFailure {
  return engineDied('the stream of the engine ended without its finish');
}

/** Returns the failure for an answer in one piece that is larger than the worker holds. */
export function answerTooLarge(): JobFailure {
  const most = `${bounds.PAYLOAD_BYTES / 1024 ** 2} MiB`;
  return finalFailure(
    'engine_error',
    `the engine's answer is larger than ${most}, the most that is passed on in one piece: ask for less at a time ` +
      '(fewer inputs, choices or tokens, embeddings in base64)',
  );
}

/**
 * Returns the failure for a redirect: a result has no field for the address, and another attempt would be redirected
 * too.
 */
export function redirected({ status, headers }: EngineAnswer): JobFailure {
  const target = headers.location ?? 'an address it does not name';
  return new JobFailure({
    message: `the engine redirects to ${target} (HTTP ${status}); redirects of an engine are not followed`,
    code: 'engine_refused',
    retryable: false,
    http_status: status,
  });
}

/**
 * Returns the failure for an error that the engine reports inside its answer: either the request is at fault, or the
 * engine is dying.
 */
export function failureInside(attempt: Attempt, { error, status }: EngineError): Promise<JobFailure> {
  return failureOfEngine(attempt, status, { error });
}

export async function failureOfEngine(attempt: Attempt, status: number, body: unknown): Promise<JobFailure> {
  const refusal = engineRefusal(status, body);
  if (status < 500 || (await attempt.engine.isHealthy(HEALTH_WITHIN_MS))) return refusal;
  return engineDied(refusal.message);
}

/** Tells whether jobs of a dying engine fail like this; a single job whose answer ended unfinished does too. */
export function isOfDyingEngine(settlement: Settlement): settlement is JobError {
  if (settlement.type !== 'job_error') return false;
  const { code } = settlement;
  return code === 'engine_died' || code === 'engine_unreachable';
}
