import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { isLoopback } from '../../process/network.ts';

/** Headers that proxies add to the requests they pass on. */
const FORWARDED_HEADERS = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'x-forwarded-host', 'via'];

/**
 * Returns why a request to the local API is refused, as a queue without tokens refuses it; null: it is served. The host
 * is checked against pages that make their own name point to this machine, and the origin against pages that simply
 * call the API.
 * @param bound the address that the API listens on: if others can reach it, the operator has asked for that
 */
export function refusalOf(headers: IncomingHttpHeaders, bound: string): string | null {
  const host = hostOf(`http://${headers.host ?? ''}`);
  const isOpen = !isLoopback(bound);
  const isHere =
    host !== null &&
    (isLoopback(host) || (isOpen && (host === bound || isIP(host.replace(/^\[|\]$/g, '')) !== 0)));
  if (!isHere) return `The local API serves its own address (${bound}), not "${headers.host ?? ''}".`;
  const forwarded = isOpen ? undefined : FORWARDED_HEADERS.find((name) => name in headers);
  if (forwarded)
    return `The local API serves this machine, and a proxy passed this request on (${forwarded}).`;
  const { origin } = headers;
  if (origin !== undefined && !isLoopback(hostOf(origin) ?? '')) {
    return `Web pages of ${origin} may not use the local API.`;
  }
  return null;
}

/** Returns the host of an address; null: the text is no address. */
function hostOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).hostname : null;
}
