import type { IncomingMessage } from 'node:http';
import { HttpError } from '../../../gateway/errors.ts';
import { dialableHost } from '../../../process/network.ts';
import { bodyStream } from './body-stream.ts';

/** The methods that the platform's Request refuses. */
const IMPOSSIBLE = new Set(['CONNECT', 'TRACE', 'TRACK']);

/**
 * Makes the request that the gateway reads.
 * @param signal fires when the caller is gone
 * @param askForBody is called before the body is read for the first time
 * @throws HttpError 400, 405, 417
 */
export function requestOf(incoming: IncomingMessage, signal: AbortSignal, askForBody: () => void): Request {
  const { method = 'GET' } = incoming;
  if (IMPOSSIBLE.has(method)) throw impossibleMethod(method);
  const headers = headersOf(incoming);
  const expected = headers.get('expect');
  if (expected !== null && expected.toLowerCase() !== '100-continue') throw unmetExpectation(expected);
  const url = urlOf(incoming, headers.get('host'));
  const body = hasBody(incoming) ? bodyStream(incoming, askForBody) : null;
  const init = { method, headers, signal, ...(body && { body, duplex: 'half' as const }) };
  return new Request(url, init);
}

/** Returns whether the gateway gets a body. A body that comes with a GET or HEAD is discarded. */
function hasBody({ method, headers }: IncomingMessage): boolean {
  if (method === 'GET' || method === 'HEAD') return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!);
  return headers;
}

/** @throws HttpError 400 */
function urlOf(incoming: IncomingMessage, host: string | null): string {
  const { url: target = '/', httpVersion } = incoming;
  if (host === null && httpVersion === '1.1') {
    throw new HttpError(400, 'A request of HTTP/1.1 needs a Host header.', 'invalid_host');
  }
  const url = target.startsWith('/') ? `http://${host ?? ownHost(incoming)}${target}` : target;
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed !== null && /^https?:$/.test(parsed.protocol) && !parsed.username && !parsed.password) {
    return parsed.href;
  }
  // Any path is valid, so the host is at fault.
  if (target.startsWith('/')) {
    const message = 'The Host header must be a name or an address, with a port or without.';
    throw new HttpError(400, message, 'invalid_host');
  }
  throw new HttpError(400, 'The target of the request must be a path or a URL.', 'invalid_target');
}

/** Returns the address that the caller connected to: a health check in HTTP/1.0 names no host. */
function ownHost({ socket }: IncomingMessage): string {
  const address = socket.localAddress?.replace(/^::ffff:/, '') ?? '127.0.0.1';
  return `${dialableHost(address)}:${socket.localPort}`;
}

function unmetExpectation(expected: string): HttpError {
  const message = `"Expect: ${expected}" cannot be met here; "Expect: 100-continue" can, and so can none.`;
  return new HttpError(417, message, 'expectation_failed');
}

export function impossibleMethod(method: string): HttpError {
  return new HttpError(405, `${method} is not possible here.`, 'method_not_allowed');
}
