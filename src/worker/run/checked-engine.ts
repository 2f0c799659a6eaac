import { bodyFacts } from '../../request-facts/body-facts.ts';
import { RequestFault } from '../../request-facts/fault.ts';
import { finalFailure } from '../failure.ts';
import type { RunEngine } from './traced-engine.ts';

/**
 * Wraps the engine for one attempt: the worker checks the final bytes of each body before they leave, whatever code
 * made them, since a base queue and RunPod's platform check none.
 * @param isContinued whether the attempt may go on with an answer: then the worker gives the prompt as token ids
 */
export function checkedEngine(engine: RunEngine, isContinued: boolean): RunEngine {
  return {
    isHealthy: (timeoutMs) => engine.isHealthy(timeoutMs),
    request: (call) => {
      const { body, contentType = null } = call;
      if (body !== undefined && !isNoJson(body, contentType))
        check(typeof body === 'string' ? Buffer.from(body) : body, contentType, isContinued);
      return engine.request(call);
    },
  };
}

/** Tells whether no parser takes a text for an object: then the engine reports the fault. */
function isNoJson(body: string | Uint8Array, contentType: string | null): boolean {
  const isNamedJson = contentType === null || /^application\/json\b/i.test(contentType);
  return typeof body === 'string' && isNamedJson && !/^[\s\ufeff]*\{/.test(body);
}

/** Checks the bytes of a body. @throws JobFailure */
function check(body: Uint8Array, contentType: string | null, isContinued: boolean): void {
  try {
    bodyFacts(body, contentType, isContinued);
  } catch (error) {
    throw error instanceof RequestFault ? finalFailure('invalid_request', error.message) : error;
  }
}
