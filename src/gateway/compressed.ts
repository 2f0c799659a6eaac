import type { GatewayContext } from './routes/route.ts';

/** JSON for the page, which asks for some of it again and again: a view of the fleet is a sixth as long compressed. */
export function compressed(context: GatewayContext, value: unknown): Response {
  const headers = new Headers({ 'content-type': 'application/json', vary: 'accept-encoding' });
  const text = JSON.stringify(value);
  if (!/\bgzip\b/.test(context.req.header('accept-encoding') ?? '')) return new Response(text, { headers });
  headers.set('content-encoding', 'gzip');
  const bytes = new Blob([text]).stream().pipeThrough(new CompressionStream('gzip'));
  // The runtime of Cloudflare would compress it once more without the option, which it alone knows.
  const init = { headers, encodeBody: 'manual' } as const;
  return new Response(bytes, init);
}
