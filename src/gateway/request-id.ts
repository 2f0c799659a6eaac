import type { MiddlewareHandler } from 'hono';
import { type Dialect, dialectOf, isRequestId } from '../protocol/index.ts';
import type { Environment } from './routes/route.ts';

/**
 * Gives each request an id, the caller's own (`X-Request-Id`) where it has one, and returns it in the response. The id
 * is for finding a request again and need not be unique: the gateway itself uses `ownId`.
 */
export const nameRequest: MiddlewareHandler<Environment> = async (context, next) => {
  const ownId = crypto.randomUUID();
  const given = context.req.raw.headers.get('x-request-id') ?? undefined;
  context.set('ownId', ownId);
  context.set('requestId', isRequestId(given) ? given : ownId);
  await next();
  const { res } = context;
  // The response to an upgrade is handed back as it is; an answer of an object has these already, and may not be
  // changed.
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
