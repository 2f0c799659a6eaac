import { type Clock, systemClock, withRetries } from './clock.ts';

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

/** The environment of HTTP requests: real in production, virtual in tests. */
export interface Web {
  clock: Clock;
  fetch: Fetch;
}

/** The real environment of HTTP requests. */
export const systemWeb: Web = {
  clock: systemClock,
  fetch,
};

/** A post that failed early is tried again: a restarting receiver is back soon, or the reused connection was stale. */
const POST_TRIES = 3;
const POST_PAUSE_MS = 250;
/** The default limit of a post, all tries together, ms. */
const POST_WITHIN_MS = 10_000;

/** A response with a status that means failure. */
export class HttpStatusError extends Error {
  readonly status: number;
  constructor(status: number) {
    super(`HTTP ${status}`);
    this.status = status;
  }
}

/** Returns whether another try may succeed: there was no response, or its status blames the server or the load. */
export function isTransient(error: unknown): boolean {
  return (
    !(error instanceof HttpStatusError) || error.status === 408 || error.status === 429 || error.status >= 500
  );
}

export interface Post {
  url: string;
  /** The bearer token that the post sends. */
  token: string | undefined;
  body: unknown;
  /** The limit for all tries together, ms; left out: 10 s. */
  limitMs?: number;
  /** Returns whether a response means success; left out: any 2xx does. */
  isTaken?: (response: Response) => boolean;
}

/**
 * Posts JSON, up to three times within its limit.
 * @throws HttpStatusError for any other status, Error when there was no response
 */
export function postJson(web: Web, post: Post): Promise<void> {
  const { url, token, body, limitMs = POST_WITHIN_MS, isTaken = ({ ok }) => ok } = post;
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (token) headers.authorization = `Bearer ${token}`;
  const text = JSON.stringify(body);
  const policy = {
    clock: web.clock,
    limitMs,
    firstPauseMs: POST_PAUSE_MS,
    tries: POST_TRIES,
    mayPass: isTransient,
  };
  return withRetries(policy, async (signal) => {
    const response = await web.fetch(url, { method: 'POST', headers, body: text, signal });
    await response.body?.cancel();
    if (!isTaken(response)) throw new HttpStatusError(response.status);
  });
}

/** The error codes for certificates that no authority known here has signed. */
const UNTRUSTED = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** Matches OpenSSL's error for an answer in HTTP instead of TLS. */
const NO_TLS = /SSL routines:.*(wrong version number|packet length too long)/s;

/** Returns why a request failed, for people: `fetch`, and clients around it, hide the reason in the error's causes. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  let reason: NodeJS.ErrnoException = error;
  for (let inner = error.cause; inner instanceof Error; inner = inner.cause) {
    if (inner.message) reason = inner;
  }
  const { message, code = '' } = reason;
  if (NO_TLS.test(message)) {
    return 'what answers there does not speak TLS: name it with http:// or ws://, or put what ends TLS before it';
  }
  if (!UNTRUSTED.has(code)) return message;
  // Node's own advice names a flag that nobody passes to a container.
  const what = message.replace(/; if the root CA is installed locally.*$/s, '');
  return `${what}: set NODE_EXTRA_CA_CERTS to a file with the certificate of its authority, as PEM`;
}
