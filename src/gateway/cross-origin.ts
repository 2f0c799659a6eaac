import type { MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import { isLoopback } from '../process/network.ts';
import { matchesPattern } from '../protocol/index.ts';
import type { Env } from './env.ts';
import type { Environment } from './routes/route.ts';

/** A browser may remember the answer for this many seconds: the most that Chrome does. */
const REMEMBER_SECONDS = 7200;

/**
 * Lets some web pages of other origins call: those of this machine, and those of `QUEUE_CORS_ORIGINS`. They may send
 * any header, since clients of each API have their own, but never cookies, so that a page needs a token of its own.
 */
const answerPages = cors({
  origin: (origin, context) => (mayCall(origin, context.env) ? origin : null),
  allowMethods: ['GET', 'POST', 'DELETE'],
  exposeHeaders: ['x-request-id', 'request-id', 'x-job-id', 'retry-after'],
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
