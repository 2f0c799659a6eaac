import type { WorkerDial } from '../../asking/objects.ts';
import { WORKER_TOKEN_HEADERS } from '../../queue/rpc.ts';

/** What the gateway says of a worker, in headers that only it sets. */
export function dialOf(request: Request): WorkerDial {
  return { origin: originOf(request), token: tokenOf(request), price_per_hour: priceIn(request) };
}

function tokenOf({ headers }: Request): WorkerDial['token'] {
  const said = (of: keyof typeof WORKER_TOKEN_HEADERS) => {
    const value = headers.get(WORKER_TOKEN_HEADERS[of]);
    return value === null ? null : decodeURIComponent(value);
  };
  const name = said('name');
  if (name === null) return null;
  const [sha256, expires] = [said('sha256'), said('expires')];
  return {
    name,
    ...(sha256 !== null && { sha256 }),
    ...(expires !== null && { expires_at: Number(expires) }),
    worker_ids: said('pattern'),
    config_id: said('pool'),
  };
}

function priceIn({ headers }: Request): number | null {
  const price = headers.get(WORKER_TOKEN_HEADERS.price);
  return price === null ? null : Number(price);
}

/** The address that the worker dialled, and dials again: a proxy before us may have removed the encryption. */
function originOf(request: Request): string {
  const url = new URL(request.url);
  const forwarded = request.headers.get('x-forwarded-proto')?.split(',')[0]?.trim().toLowerCase();
  const scheme = forwarded === 'https' || forwarded === 'http' ? `${forwarded}:` : url.protocol;
  return `${scheme}//${url.host}`;
}
