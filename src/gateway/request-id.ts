import type { MiddlewareHandler } from 'hono';
import type { Environment } from './routes/types.ts';

/** Visible ASCII: what a header, a log line and an engine take as it is. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** Whether a caller's id can go on as it is; any other is replaced. */
function isRequestId(text: string | null): text is string {
  return text !== null && REQUEST_ID.test(text);
}

/**
 * Gives each request an id, the caller's own (`X-Request-Id`) where it has one, and names it in the response. It is
 * for finding a request again and need not be unique: what happens here goes by the id of the job.
 */
export const nameRequest: MiddlewareHandler<Environment> = async (context, next) => {
  const given = context.req.raw.headers.get('x-request-id');
  context.set('requestId', isRequestId(given) ? given : crypto.randomUUID());
  await next();
  // The response to an upgrade is handed back as it is.
  if (context.res.status !== 101) context.res.headers.set('x-request-id', context.get('requestId'));
};
