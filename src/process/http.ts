import { withRetries } from './retry.ts';
import { systemTimers, type Timers } from './timeout.ts';

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

/** How to reach others over HTTP: real in production, virtual in tests. */
export interface Web {
  clock: Timers & { now(): number };
  fetch: Fetch;
}

/** Node's own. */
export const systemWeb: Web = {
  clock: { ...systemTimers, now: () => performance.now() },
  fetch,
};

/** A post that failed at once is tried again: a receiver that restarts is back soon, a connection may have been stale. */
const POST_TRIES = 3;
const POST_PAUSE_MS = 250;
/** A receiver that does not answer within this has refused it, ms. */
const POST_WITHIN_MS = 10_000;

/** An answer that is not what was asked for. */
export class HttpError extends Error {
  readonly status: number;
  constructor(status: number) {
    super(`HTTP ${status}`);
    this.status = status;
  }
}

/** Whether another try may end better: there was no answer, or one that says that the server is in trouble. */
export function isTransient(error: unknown): boolean {
  return !(error instanceof HttpError) || error.status === 408 || error.status === 429 || error.status >= 500;
}

export interface Post {
  url: string;
  /** Sent as a bearer token. */
  token: string | undefined;
  body: unknown;
  /** For all tries together, ms; 10 s if left out. */
  limitMs?: number;
  /** Whether the body was taken; any 2xx if left out. */
  isTaken?: (response: Response) => boolean;
}

/**
 * Posts JSON, up to three times within its limit.
 * @throws HttpError when the receiver refused it, Error when no answer came
 */
export function postJson(web: Web, post: Post): Promise<void> {
  const { url, token, body, limitMs = POST_WITHIN_MS, isTaken = ({ ok }) => ok } = post;
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (token) headers.authorization = `Bearer ${token}`;
  const text = JSON.stringify(body);
  const policy = {
    timers: web.clock,
    limitMs,
    firstPauseMs: POST_PAUSE_MS,
    tries: POST_TRIES,
    mayPass: isTransient,
  };
  return withRetries(policy, async (signal) => {
    const response = await web.fetch(url, { method: 'POST', headers, body: text, signal });
    await response.body?.cancel();
    if (!isTaken(response)) throw new HttpError(response.status);
  });
}

/** What went wrong, for people: `fetch` says only that it failed, its cause says why. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? error.cause.message : '';
  return cause || error.message;
}
