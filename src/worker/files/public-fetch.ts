import type { lookup as systemLookup } from 'node:dns';
import { isIP } from 'node:net';
import { fetch } from 'undici';
import { type Fetch, systemWeb } from '../../process/http.ts';
import { proxyFor } from '../../process/outgoing.ts';
import {
  isPublicAddress,
  PrivateAddressError,
  publicAgent,
  publicLookup,
  withoutBrackets,
} from '../../process/public-addresses.ts';

/** The advice on how to allow a private address. */
const REMEDY = 'name the host in WORKER_PAYLOAD_HOSTS to allow it';

/** Returns the error for a host that is a private address; null: it is a public one, or a name. */
export function privateAddressIn(hostname: string): PrivateAddressError | null {
  const host = withoutBrackets(hostname);
  return isIP(host) !== 0 && !isPublicAddress(host) ? new PrivateAddressError(host, host, REMEDY) : null;
}

/**
 * Returns a `fetch` that connects to public addresses only, whatever a name resolves to. Its errors have a
 * PrivateAddressError as cause. Where a proxy connects, names that resolve to private addresses here are refused; names
 * that do not resolve here, as behind many proxies none does, are the proxy's to judge.
 */
export function createPublicFetch(
  lookup?: typeof systemLookup,
  proxied = { applies: (url: string) => proxyFor(url) !== null, fetch: systemWeb.fetch },
): Fetch {
  const dispatcher = publicAgent(REMEDY, lookup);
  // undici's types and those of the platform differ in names only.
  const directly = ((url: string, init: object) => fetch(url, { ...init, dispatcher })) as unknown as Fetch;
  return async (url, init) => {
    if (!proxied.applies(url)) return await directly(url, init);
    const problem = await privateAddressOf(new URL(url).hostname, lookup);
    if (problem) throw new TypeError('fetch failed', { cause: problem });
    return await proxied.fetch(url, init);
  };
}

/** Returns why a host is refused; null: it is public as far as this machine can tell. */
function privateAddressOf(
  hostname: string,
  lookup?: typeof systemLookup,
): Promise<PrivateAddressError | null> {
  const host = withoutBrackets(hostname);
  if (isIP(host) !== 0) return Promise.resolve(privateAddressIn(host));
  return new Promise((resolve) => {
    const find = publicLookup(REMEDY, lookup);
    find(host, {}, (error) => resolve(error instanceof PrivateAddressError ? error : null));
  });
}
