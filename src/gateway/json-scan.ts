import { checkJson, JsonFault } from '../protocol/index.ts';
import { RequestFault } from '../request-facts/fault.ts';
import { HttpError } from './errors.ts';

/**
 * Checks a body that is parsed afterwards.
 * @returns the number of its texts, keys, objects and arrays
 * @throws HttpError 400 for more than bounds.JSON_DEPTH levels or bounds.JSON_VALUES of them
 */
export function checkBody(body: Uint8Array): number {
  return asHttp(() => checkJson(body));
}

/**
 * Returns what `read` returns, and turns its faults into errors for callers.
 * @throws HttpError 400 where a request cannot be read, or may go to no engine
 */
export function asHttp<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof JsonFault || error instanceof RequestFault
      ? new HttpError(400, error.message, error.code)
      : error;
  }
}
