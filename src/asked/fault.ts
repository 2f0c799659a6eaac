import { JsonFault } from '../protocol/index.ts';

/** Why a request or a job goes to no engine. The message tells its caller what to change. */
export class AskedFault extends Error {
  override name = 'AskedFault';
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The same of JSON that cannot be read. @throws AskedFault */
export function readingJson<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw asAskedFault(error);
  }
}

export function asAskedFault(error: unknown): unknown {
  return error instanceof JsonFault ? new AskedFault(error.code, error.message) : error;
}
