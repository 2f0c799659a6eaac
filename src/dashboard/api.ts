import { at } from './router.ts';

/** What the API answered instead of what was asked for. */
export class ApiFailure extends Error {
  override name = 'ApiFailure';
  /** 0: nothing answered. */
  readonly status: number;
  readonly code: string | null;
  constructor(status: number, message: string, code: string | null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * Asks this page's own gateway.
 * @param path without a slash first: `api/fleet`
 * @throws ApiFailure
 */
export async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await request(path, init);
  const text = await response.text();
  const body = parse(text);
  if (response.ok) return body as T;
  const { message, code } = (body as { error?: { message?: string; code?: string } } | null)?.error ?? {};
  throw new ApiFailure(response.status, message ?? `The gateway answered ${response.status}.`, code ?? null);
}

/** The same, with its body still to be read. @throws ApiFailure where nothing answers */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  try {
    return await fetch(at(path), { ...init, headers: { accept: 'application/json', ...init.headers } });
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    throw new ApiFailure(0, 'The queue does not answer.', null);
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
