import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { type ClientOptions, WebSocket } from 'ws';
import { systemClock, withTimeout } from '../../process/clock.ts';
import { reasonOf } from '../../process/http.ts';
import { isLoopback } from '../../process/network.ts';
import { proxyFor } from '../../process/outgoing.ts';
import { tunnelled } from '../../process/through-proxies.ts';
import { bounds } from '../../protocol/index.ts';
import type { Dial } from './socket.ts';

/** A connection counts as ended this long after the close frames, ms, since a queue on Cloudflare may leave it open. */
const CLOSE_TIMEOUT_MS = 500;

/**
 * A queue that accepts no connection has this long to say why, ms; the log repeats this many characters of its reason.
 */
const EXPLANATION_MS = 1000;
const EXPLANATION_CHARACTERS = 500;

/** Dials with the `ws` library, without compression, which would cost more time than the bytes it saves. */
export const dialWebSocket: Dial = (target, events) => {
  // The library's types do not know `closeTimeout` yet.
  const proxy = proxyFor(target.url);
  const options: ClientOptions & { closeTimeout: number } = {
    ...(proxy && { createConnection: tunnelled(proxy, new URL(target.url)) as never }),
    headers: target.token ? { authorization: `Bearer ${target.token}` } : {},
    perMessageDeflate: false,
    maxPayload: bounds.BODY_FRAME_BYTES,
    closeTimeout: CLOSE_TIMEOUT_MS,
    ...(isSeenByProxies(target.url) ? {} : { generateMask: noMask }),
  };
  const socket = new WebSocket(target.url, options);
  let httpStatus: number | undefined;
  let problem = '';
  socket.on('open', events.opened);
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) events.binary(data);
    else events.text(data.toString());
  });
  socket.on('pong', events.pong);
  socket.on('unexpected-response', (_request, response) => {
    httpStatus = response.statusCode;
    problem = `HTTP ${response.statusCode} ${response.statusMessage}`;
    void explanationOf(response).then((explanation) => {
      if (explanation) problem += `: ${explanation}`;
      socket.terminate();
    });
  });
  // `close` always follows, and handles the end.
  socket.on('error', (error) => {
    problem ||= reasonOf(error) || ('code' in error ? String(error.code) : error.name);
  });
  socket.on('close', (code, reason) => {
    events.closed({ code, reason: reason.toString() || problem, ...(httpStatus ? { httpStatus } : {}) });
  });
  return {
    send: (data) => socket.send(data),
    ping: () => socket.ping(),
    close: (code, reason) => socket.close(code, reason),
    destroy: () => socket.terminate(),
  };
};

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

/** Returns why a queue accepts no connection, from its error in OpenAI's shape; null: it did not say in time. */
async function explanationOf(response: IncomingMessage): Promise<string | null> {
  try {
    const read = withTimeout(systemClock, EXPLANATION_MS, () => text(response));
    const { error } = JSON.parse(await read) as { error?: { message?: unknown } };
    return typeof error?.message === 'string' ? error.message.slice(0, EXPLANATION_CHARACTERS) : null;
  } catch {
    return null;
  }
}
