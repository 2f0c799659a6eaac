import { JsonFault } from '../protocol/index.ts';

/** Why a request or a job goes to no engine. The message tells its caller what to change. */
export class RequestFault extends Error {
  override name = 'RequestFault';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The same of JSON that cannot be read. @throws RequestFault */
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
