import type { Post } from '../../durable/host.ts';

/** Set where the runtime has a network of its own for private addresses: Cloudflare has one network for all. */
export interface PrivateNetwork {
  PRIVATE_NETWORK?: { fetch: typeof fetch };
}

export function postOf({ PRIVATE_NETWORK }: PrivateNetwork): Post {
  return (reach) => (url, init) =>
    reach === 'private' && PRIVATE_NETWORK ? PRIVATE_NETWORK.fetch(url, init) : fetch(url, init);
}
