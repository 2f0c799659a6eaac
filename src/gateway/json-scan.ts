import { checkJson, JsonFault } from '../protocol/index.ts';
import { RequestFault } from '../request-facts/fault.ts';
import { HttpError } from './errors.ts';

/**
 * For bodies that are parsed after this.
 * @returns how many texts, keys, objects and arrays it has
 * @throws HttpError 400 for more than limits.JSON_DEPTH levels or limits.JSON_VALUES of them
 */
export function checkBody(body: Uint8Array): number {
  return asHttp(() => checkJson(body));
}

/** @throws HttpError 400 where what a caller asks for cannot be read, or goes to no engine */
export function asHttp<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof JsonFault || error instanceof RequestFault
      ? new HttpError(400, error.message, error.code)
      : error;
  }
}
