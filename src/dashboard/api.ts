import { asSentence } from '../show/format.ts';
import { at } from './router.ts';

/** The error that the API returned instead of the result. */
export class ApiFailure extends Error {
  override name = 'ApiFailure';
  /** The answer's HTTP status; 0: nothing answered. */
  readonly status: number;
  readonly code: string | null;
  constructor(status: number, message: string, code: string | null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * Calls this page's own gateway and returns its answer's value.
 * @param path without a slash at its beginning: `api/fleet`
 * @throws ApiFailure
 */
export async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  return parse(await (await request(path, init)).text()) as T;
}

/** Calls this page's own gateway and returns its response, whose body is still to be read. @throws ApiFailure */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(at(path), { ...init, headers: { accept: 'application/json', ...init.headers } });
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiFailure(0, 'The queue does not answer.', null);
  }
  if (response.ok) return response;
  const body = parse(await response.text()) as { error?: { message?: string; code?: string } } | null;
  const { message = `The gateway answered ${response.status}.`, code = null } = body?.error ?? {};
  throw new ApiFailure(response.status, asSentence(message), code);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
