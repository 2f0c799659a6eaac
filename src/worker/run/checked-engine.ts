import { bodyFacts } from '../../request-facts/body-facts.ts';
import { RequestFault } from '../../request-facts/fault.ts';
import { finalFailure } from '../failure.ts';
import type { RunEngine } from './traced-engine.ts';

/**
 * Wraps the engine for one attempt: the worker reads the last bytes of each body before they leave, whatever road they
 * took, since a base queue and RunPod's platform look into none.
 * @param isContinued whether the attempt may go on with an answer: the worker gives the prompt as token ids then
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

/** Whether no parser takes a text for an object: the engine says what is wrong with it. */
function isNoJson(body: string | Uint8Array, contentType: string | null): boolean {
  const isNamedJson = contentType === null || /^application\/json\b/i.test(contentType);
  return typeof body === 'string' && isNamedJson && !/^[\s\ufeff]*\{/.test(body);
}

/** @throws JobFailure */
function check(body: Uint8Array, contentType: string | null, isContinued: boolean): void {
  try {
    bodyFacts(body, contentType, isContinued);
  } catch (error) {
    throw error instanceof RequestFault ? finalFailure('invalid_request', error.message) : error;
  }
}
