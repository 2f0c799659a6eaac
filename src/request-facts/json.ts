import { JsonFault, parseJsonBytes } from '../protocol/index.ts';

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

export const NO_BODY = new Uint8Array();

export function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Returns the text that the JSON holds; null where it is no text. */
export function textIn(json: Uint8Array | undefined): string | null {
  return json?.[0] === 0x22 ? String(readingJson(() => parseJsonBytes(json))) : null;
}

export function isNull(json: Uint8Array): boolean {
  return json.byteLength === 4 && new TextDecoder().decode(json) === 'null';
}
