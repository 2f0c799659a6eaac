import type { IncomingMessage } from 'node:http';
import { HttpError } from '../../../gateway/errors.ts';
import { dialableHost } from '../../../process/network.ts';

/** The methods that the platform's Request refuses. */
const IMPOSSIBLE = new Set(['CONNECT', 'TRACE', 'TRACK']);

/**
 * Makes the request that the gateway reads.
 * @param signal fires when the caller is gone
 * @param askForBody called before the body is read for the first time
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

/** Returns whether the gateway gets a body. The body of a GET or HEAD is discarded. */
function hasBody({ method, headers }: IncomingMessage): boolean {
  if (method === 'GET' || method === 'HEAD') return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!);
  return headers;
}

/** Returns the URL of a request. @throws HttpError 400 */
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

/** Returns the address that the caller connected to, since a health check in HTTP/1.0 names no host. */
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

/** The error that ends the body of each broken request. */
const faults = new WeakMap<IncomingMessage, HttpError>();

/** Breaks a body whose next bytes are malformed: its reader gets what came before, and then this error. */
export function breakBody(incoming: IncomingMessage, fault: HttpError): void {
  if (faults.has(incoming)) return;
  faults.set(incoming, fault);
  incoming.emit('error', fault);
}

/**
 * Returns the body of a request as a stream of bytes. Nothing is read ahead: bytes that the gateway has not asked for
 * stay in the connection, and their sender waits.
 * @param begin called before the first read
 */
function bodyStream(incoming: IncomingMessage, begin: () => void): ReadableStream<Uint8Array> {
  let rest: Buffer | null = null;
  let hasBegun = false;
  let wake = () => {};
  const begins = () => {
    hasBegun = true;
    begin();
    const look = () => wake();
    incoming.on('readable', look).on('end', look).on('error', look).on('close', look);
  };
  const read = async (): Promise<Buffer | null> => {
    if (!hasBegun) begins();
    for (;;) {
      const piece = rest ?? (incoming.read() as Buffer | null);
      rest = null;
      if (piece !== null) return piece;
      if (incoming.readableEnded) return null;
      const fault = faults.get(incoming);
      if (fault) throw fault;
      // The error is not the queue's, so nothing is logged, and nobody reads the answer.
      if (incoming.destroyed) throw new HttpError(499, 'The caller hung up.', 'caller_gone');
      await new Promise<void>((done) => {
        wake = done;
      });
    }
  };
  const pull = async (controller: ReadableByteStreamController) => {
    const piece = await read();
    const asked = controller.byobRequest;
    if (piece === null) {
      controller.close();
      asked?.respond(0);
    } else if (asked?.view) {
      const { buffer, byteOffset, byteLength } = asked.view;
      const taken = piece.subarray(0, byteLength);
      if (taken.byteLength < piece.byteLength) rest = piece.subarray(byteLength);
      new Uint8Array(buffer, byteOffset, byteLength).set(taken);
      asked.respond(taken.byteLength);
    } else {
      // The piece is copied, since the stream takes over the whole buffer, which pieces of a body share.
      controller.enqueue(new Uint8Array(piece));
    }
  };
  return new ReadableStream({ type: 'bytes', pull }, { highWaterMark: 0 });
}
