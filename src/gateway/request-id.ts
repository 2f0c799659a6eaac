import type { MiddlewareHandler } from 'hono';
import { dialectOf, isRequestId } from '../protocol/index.ts';
import type { Environment } from './routes/types.ts';

/**
 * Gives each request an id, the caller's own (`X-Request-Id`) where it has one, and names it in the response. It is
 * for finding a request again and need not be unique: what happens here goes by `ownId`.
 */
export const nameRequest: MiddlewareHandler<Environment> = async (context, next) => {
  const ownId = crypto.randomUUID();
  const given = context.req.raw.headers.get('x-request-id') ?? undefined;
  context.set('ownId', ownId);
  context.set('requestId', isRequestId(given) ? given : ownId);
  await next();
  const requestId = context.get('requestId');
  const { res } = context;
  // The name by which Anthropic's clients look for it.
  if (dialectOf(context.req.path) === 'anthropic') res.headers.set('request-id', requestId);
  // The response to an upgrade is handed back as it is; one of an object has its name, and may not be changed.
  if (res.status !== 101 && res.headers.get('x-request-id') !== requestId) {
    res.headers.set('x-request-id', requestId);
  }
};
