import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { errorResponse, HttpError } from '../../../gateway/errors.ts';

/**
 * The longest message of a socket, bytes. What is longer than the protocol allows, but not by far, is left to the rules,
 * which close with a code that says so.
 */
const MOST_MESSAGE_BYTES = 32 * 1024 * 1024;

/** Bytes of a handshake's key in base64. */
const KEY = /^[+/0-9A-Za-z]{22}==$/;

const sockets = new WebSocketServer({
  noServer: true,
  // It would cost more than what the messages say.
  perMessageDeflate: false,
  maxPayload: MOST_MESSAGE_BYTES,
  clientTracking: false,
});

/** The answer that a caller's connection becomes a WebSocket (101, which the platform's Response cannot have). */
export class UpgradeResponse extends Response {
  /** Takes the socket as soon as it is open: the listeners that it adds at once miss no message. */
  readonly take: (socket: WebSocket) => void;
  /** Is called instead where the caller left before that. */
  readonly gone: () => void;

  constructor(take: (socket: WebSocket) => void, gone: () => void = () => {}) {
    super(null);
    this.take = take;
    this.gone = gone;
    Object.defineProperty(this, 'status', { value: 101 });
  }
}

/** Whether a request asks for a WebSocket; others may name protocols that nobody here speaks, such as h2c. */
export function asksForSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/** @throws HttpError 400, 426 where the handshake is none that can be answered */
export function checkHandshake({ headers }: IncomingMessage): void {
  const version = headers['sec-websocket-version'];
  if (version !== '13') {
    const message = `WebSockets of version ${version ?? 'none'} are not spoken here; of version 13 they are.`;
    throw new HttpError(426, message, 'upgrade_required', {
      upgrade: 'websocket',
      'sec-websocket-version': '13',
    });
  }
  if (!KEY.test(headers['sec-websocket-key'] ?? '')) {
    throw new HttpError(400, 'Sec-WebSocket-Key: expected 16 bytes in base64.', 'invalid_handshake');
  }
}

/** Answers the handshake and hands the socket over. @param head the first bytes that came behind the request */
export function openSocket(
  { take, gone }: UpgradeResponse,
  incoming: IncomingMessage,
  connection: Duplex,
  head: Buffer,
): void {
  if (connection.destroyed || !connection.readable) {
    connection.destroy();
    gone();
    return;
  }
  let isTaken = false;
  connection.once('close', () => {
    if (!isTaken) gone();
  });
  sockets.handleUpgrade(incoming, connection, head, (socket) => {
    isTaken = true;
    take(socket);
  });
}

/** The answer to a request that names the protocol, and does not ask to go over to it. */
export function lacksUpgrade(): Response {
  const message =
    'A request for a WebSocket is a GET with the headers Connection: Upgrade and Upgrade: websocket.';
  return errorResponse(new HttpError(426, message, 'upgrade_required', { upgrade: 'websocket' }));
}
