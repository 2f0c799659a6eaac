import type { GatewayContext } from './routes/route.ts';

/**
 * Returns JSON for the page, compressed where it accepts that: the page asks for some of it again and again, and a
 * view of the fleet is a sixth as long compressed.
 */
export function compressed(context: GatewayContext, value: unknown): Response {
  const headers = new Headers({ 'content-type': 'application/json', vary: 'accept-encoding' });
  const text = JSON.stringify(value);
  if (!/\bgzip\b/.test(context.req.header('accept-encoding') ?? '')) return new Response(text, { headers });
  headers.set('content-encoding', 'gzip');
  const bytes = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
  // Without the option, which it alone knows, Cloudflare's runtime would compress the body once more.
  const init = { headers, encodeBody: 'manual' } as const;
  return new Response(bytes, init);
}
