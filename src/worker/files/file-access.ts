import type { lookup as systemLookup } from 'node:dns';
import { isIP } from 'node:net';
import { unescape as decodePercent } from 'node:querystring';
import { fetch } from 'undici';
import { type Fetch, systemWeb } from '../../process/http.ts';
import { isPublicAddress, withoutBrackets } from '../../process/ip-addresses.ts';
import { proxyFor } from '../../process/outgoing.ts';
import { PrivateAddressError, publicAgent, publicLookup } from '../../process/public-addresses.ts';

/** The addresses that payloads may be fetched from and results be put to. */
export interface FileAccess {
  /** The base of relative addresses: the queue's own address over HTTP, with a closing slash. */
  base: string;
  /** Origins of queue and API; the token goes to these alone. */
  ownOrigins: ReadonlySet<string>;
  token: string | undefined;
  /**
   * Host patterns allowed beside our own, `files.example.com`, `minio:9000` or `*.example.com`; null: any public host
   * over https.
   */
  hosts: readonly string[] | null;
}

export interface FileAccessSettings {
  /** The queue's address, `ws:` or `wss:`. */
  wsUrl: string;
  apiUrl: string | undefined;
  token: string | undefined;
  payloadHosts: readonly string[] | null;
}

export type Address =
  | {
      ok: true;
      /** The address without user name and password. */
      url: URL;
      /** The authorization header for this address: our token, or the credentials in the address itself. */
      authorization: string | undefined;
      /** Whether no setting of this worker names the host, which must then be on the public internet. */
      mustBePublic: boolean;
    }
  | { ok: false; problem: string };

export function fileAccessOf({ wsUrl, apiUrl, token, payloadHosts }: FileAccessSettings): FileAccess {
  const base = `${wsUrl.replace(/^ws/, 'http').replace(/\/+$/, '')}/`;
  const own = [base, ...(apiUrl ? [apiUrl] : [])].map((url) => new URL(url).origin);
  return { base, ownOrigins: new Set(own), token, hosts: payloadHosts };
}

/**
 * Returns the address that a queue or a redirect names, if it may be used. A problem names the host alone, since the
 * rest of a presigned address is a secret.
 * @param from the base of a relative address; the queue's address if left out
 */
export function addressOf(text: string, access: FileAccess, from: string = access.base): Address {
  if (!URL.canParse(text, from)) return { ok: false, problem: 'its address is not a URL' };
  const url = new URL(text, from);
  const own = access.ownOrigins.has(url.origin);
  const problem = own ? null : problemOf(url, access.hosts);
  if (problem !== null) return { ok: false, problem };
  const given = takeCredentials(url);
  const authorization = own && access.token ? `Bearer ${access.token}` : given;
  return { ok: true, url, authorization, mustBePublic: !own && access.hosts === null };
}

/** Returns why a host that is not our own may not be used; null: it may, judged by its name. */
function problemOf(url: URL, hosts: readonly string[] | null): string | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return `${url.protocol} addresses are not fetched, only http: and https:`;
  }
  if (hosts !== null) {
    const isListed = hosts.some((pattern) => fits(url, pattern));
    return isListed ? null : `${url.host} is not among the hosts that WORKER_PAYLOAD_HOSTS allows`;
  }
  if (url.protocol === 'https:') return null;
  return `${url.host} is not allowed over http: use https, or name the host in WORKER_PAYLOAD_HOSTS`;
}

/**
 * Moves user name and password of an address into a header: `fetch` refuses them in the address, and quotes them in its
 * error.
 */
function takeCredentials(url: URL): string | undefined {
  if (!url.username && !url.password) return undefined;
  const pair = `${decodePercent(url.username)}:${decodePercent(url.password)}`;
  url.username = '';
  url.password = '';
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

/** Tells whether a host matches a pattern; `*.` stands for one or more labels, never for none. */
function fits({ hostname, host }: URL, pattern: string): boolean {
  const name = pattern.toLowerCase();
  if (name.startsWith('*.')) return hostname.endsWith(name.slice(1)) && hostname.length > name.length - 1;
  return name === hostname || name === host;
}

/** The advice on how to allow a private address. */
const REMEDY = 'name the host in WORKER_PAYLOAD_HOSTS to allow it';

/** Returns the error for a host that is a private address; null: it is a public address, or a name. */
export function privateAddressIn(hostname: string): PrivateAddressError | null {
  const host = withoutBrackets(hostname);
  return isIP(host) !== 0 && !isPublicAddress(host) ? new PrivateAddressError(host, host, REMEDY) : null;
}

/**
 * Returns a `fetch` that connects to public addresses only, whatever a name resolves to. Its errors have a
 * PrivateAddressError as cause. If a proxy connects, names that resolve to private addresses here are refused; names
 * that do not resolve here, as is usual behind proxies, are left to the proxy.
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
