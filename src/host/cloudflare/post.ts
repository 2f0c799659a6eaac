import type { Post } from '../../durable/host.ts';

/** The binding of a runtime that has a separate network for private addresses; on Cloudflare it is not set. */
export interface PrivateNetwork {
  PRIVATE_NETWORK?: { fetch: typeof fetch };
}

export function postOf({ PRIVATE_NETWORK }: PrivateNetwork): Post {
  return (reach) => (url, init) =>
    reach === 'private' && PRIVATE_NETWORK ? PRIVATE_NETWORK.fetch(url, init) : fetch(url, init);
}
