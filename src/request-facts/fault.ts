import { JsonFault } from '../protocol/index.ts';

/** Refuses a request or a job, which then goes to no engine. The message says what the caller has to change. */
export class RequestFault extends Error {
  override name = 'RequestFault';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Reads JSON, and throws a RequestFault where it cannot be read. */
export function readingJson<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw asRequestFault(error);
  }
}

export function asRequestFault(error: unknown): unknown {
  return error instanceof JsonFault ? new RequestFault(error.code, error.message) : error;
}
