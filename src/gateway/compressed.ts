import type { GatewayContext } from './routes/route.ts';

/** JSON for the page, which asks for some of it again and again: a view of the fleet is a sixth as long compressed. */
export function compressed(context: GatewayContext, value: unknown): Response {
  const headers = new Headers({ 'content-type': 'application/json', vary: 'accept-encoding' });
  // The runtime compresses what says that it is.
  if (/\bgzip\b/.test(context.req.header('accept-encoding') ?? '')) headers.set('content-encoding', 'gzip');
  return new Response(JSON.stringify(value), { headers });
}
