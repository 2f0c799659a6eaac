import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { type ClientOptions, WebSocket } from 'ws';
import { systemClock, withTimeout } from '../../process/clock.ts';
import { reasonOf } from '../../process/http.ts';
import { webSocketOptions } from '../../process/web-socket-options.ts';
import { bounds } from '../../protocol/index.ts';
import type { Dial } from './socket.ts';

/** A connection counts as ended this long after the close frames, ms, since a queue on Cloudflare may leave it open. */
const CLOSE_TIMEOUT_MS = 500;

/**
 * A queue that accepts no connection has this long to say why, ms; the log repeats this many characters of its reason.
 */
const EXPLANATION_MS = 1000;
const EXPLANATION_CHARACTERS = 500;

/** Dials with the `ws` library. */
export const dialWebSocket: Dial = (target, events) => {
  // The library's types do not know `closeTimeout` yet.
  const options: ClientOptions & { closeTimeout: number } = {
    ...webSocketOptions(target.url),
    headers: target.token ? { authorization: `Bearer ${target.token}` } : {},
    maxPayload: bounds.BODY_FRAME_BYTES,
    closeTimeout: CLOSE_TIMEOUT_MS,
  };
  const socket = new WebSocket(target.url, options);
  let httpStatus: number | undefined;
  let problem = '';
  let explanation: string | null = null;
  socket.on('open', events.opened);
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) events.binary(data);
    else events.text(data.toString());
  });
  socket.on('pong', events.pong);
  socket.on('unexpected-response', (_request, response) => {
    httpStatus = response.statusCode;
    problem = `HTTP ${response.statusCode} ${response.statusMessage}`;
    void explanationOf(response).then((said) => {
      explanation = said;
      if (said) problem += `: ${said}`;
      socket.terminate();
    });
  });
  // `close` always follows, and handles the end.
  socket.on('error', (error) => {
    problem ||= reasonOf(error) || ('code' in error ? String(error.code) : error.name);
  });
  socket.on('close', (code, reason) => {
    events.closed({
      code,
      reason: reason.toString() || problem,
      ...(httpStatus && { httpStatus }),
      ...(explanation && { explanation }),
    });
  });
  return {
    send: (data) => socket.send(data),
    ping: () => socket.ping(),
    close: (code, reason) => socket.close(code, reason),
    destroy: () => socket.terminate(),
  };
};

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
