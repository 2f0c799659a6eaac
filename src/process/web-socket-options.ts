import type { ClientOptions } from 'ws';
import { isLoopback } from './network.ts';
import { proxyFor } from './outgoing.ts';
import { tunnelled } from './through-proxies.ts';

/**
 * Returns the options with which the `ws` library dials an address: through its proxy, and without compression, which
 * would cost more time than the bytes it saves.
 */
export function webSocketOptions(url: string): ClientOptions {
  const proxy = proxyFor(url);
  return {
    ...(proxy && { createConnection: tunnelled(proxy, new URL(url)) as never }),
    perMessageDeflate: false,
    ...(isSeenByProxies(url) ? {} : { generateMask: noMask }),
  };
}

/**
 * Tells whether a proxy between here and the queue might read the bytes. Clients mask their frames, so that a proxy
 * that does not know WebSockets does not take bytes that a caller has chosen for HTTP (RFC 6455 §10.3).
 */
function isSeenByProxies(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol !== 'wss:' && !isLoopback(hostname);
}

/**
 * Sets a key of zeros, which leaves the bytes as they are, so that `ws` copies none. Peers cannot tell it from any
 * other key.
 */
function noMask(key: Buffer): void {
  key.fill(0);
}
