import type { MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import { isLoopback } from '../process/network.ts';
import { type Dialect, dialectOf, isRequestId, matchesPattern } from '../protocol/index.ts';
import type { Env } from './env.ts';
import type { Environment } from './routes/route.ts';

/**
 * Gives each request an id, the caller's own (`X-Request-Id`) where it has one, and returns it in the response. The id
 * is for finding a request again and need not be unique. A request for an engine that brings none is known by the id of
 * its job from the moment that its body is read.
 */
export const nameRequest: MiddlewareHandler<Environment> = async (context, next) => {
  const given = context.req.raw.headers.get('x-request-id') ?? undefined;
  context.set('requestId', isRequestId(given) ? given : crypto.randomUUID());
  await next();
  const { res } = context;
  // The response to an upgrade is handed back as it is. An answer of an object has these headers already, and may not
  // be changed.
  if (res.status === 101) return;
  const headers = requestIdHeaders(context.get('requestId'), dialectOf(context.req.path));
  for (const [name, value] of Object.entries(headers)) {
    if (res.headers.get(name) !== value) res.headers.set(name, value);
  }
};

/** Returns the headers that carry a request's id in its response; Anthropic's clients read a header of their own. */
export function requestIdHeaders(requestId: string, dialect: Dialect): Record<string, string> {
  const headers = { 'x-request-id': requestId };
  return dialect === 'anthropic' ? { ...headers, 'request-id': requestId } : headers;
}

/**
 * A Host header's form: a name or an address, with a port or without. The runtime makes the request's URL of whatever
 * a caller sends there.
 */
const HOST = /^(?:\[[\da-f:.]+\]|[\w.-]+)(?::\d{1,5})?$/i;

/** Returns whether the gateway refuses a Host header. */
export function isOddHost(host: string): boolean {
  return !HOST.test(host);
}

/** A browser may remember the answer for this many seconds: the most that Chrome does. */
const REMEMBER_SECONDS = 7200;

/**
 * Lets some web pages of other origins call: those of this machine, and those of `QUEUE_CORS_ORIGINS`. They may send
 * any header, since clients of each API have their own, but never cookies, so that a page needs a token of its own.
 */
const answerPages = cors({
  origin: (origin, context) => (mayCall(origin, context.env) ? origin : null),
  allowMethods: ['GET', 'POST', 'DELETE'],
  exposeHeaders: ['x-request-id', 'request-id', 'x-job-id', 'x-served-model', 'x-fallback', 'retry-after'],
  maxAge: REMEMBER_SECONDS,
});

export const crossOrigin: MiddlewareHandler<Environment> = (context, next) => {
  const { headers } = context.req.raw;
  // WebSockets are not subject to CORS, and the response to an upgrade is handed back as it is.
  if (!headers.has('origin') || headers.has('upgrade')) return next();
  return answerPages(context, next);
};

function mayCall(origin: string, { CORS_ORIGINS = '' }: Env): boolean {
  if (URL.canParse(origin) && isLoopback(new URL(origin).hostname)) return true;
  return CORS_ORIGINS.split(',').some((pattern) => pattern !== '' && matchesPattern(pattern.trim(), origin));
}
