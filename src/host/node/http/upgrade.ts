import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { ServerSocket } from '../../../gateway/env.ts';
import { errorResponse, HttpError } from '../../../gateway/errors.ts';

/**
 * The longest message of a socket, bytes. It is above the protocol's own limit, so that the rules see a message that is
 * slightly too long, and close with a code that says so.
 */
const MOST_MESSAGE_BYTES = 32 * 1024 * 1024;

/** A peer for which this many bytes wait does not read: its connection is broken off, before they fill the memory. */
const MOST_UNREAD_BYTES = 2 * MOST_MESSAGE_BYTES;

/** The key of a handshake: 16 bytes in base64. */
const KEY = /^[+/0-9A-Za-z]{22}==$/;

/** The servers of sockets, by the longest message that they accept, bytes. */
const servers = new Map<number, WebSocketServer>();

function serverOf(mostBytes: number): WebSocketServer {
  const known = servers.get(mostBytes);
  if (known) return known;
  const made = new WebSocketServer({
    noServer: true,
    // Compressing costs more than handling the messages.
    perMessageDeflate: false,
    maxPayload: mostBytes,
    clientTracking: false,
  });
  servers.set(mostBytes, made);
  return made;
}

/** The answer that turns a caller's connection into a WebSocket (101, which the platform's Response cannot have). */
export class UpgradeResponse extends Response {
  /** Takes the socket as soon as it is open: listeners that it adds at once miss no message. */
  readonly take: (socket: WebSocket) => void;
  /** Called instead of `take` if the caller left before the socket was open. */
  readonly gone: () => void;
  /** The longest message that the socket accepts, bytes. */
  readonly mostBytes: number;

  constructor(
    take: (socket: WebSocket) => void,
    gone: () => void = () => {},
    mostBytes: number = MOST_MESSAGE_BYTES,
  ) {
    super(null);
    this.take = take;
    this.gone = gone;
    this.mostBytes = mostBytes;
    Object.defineProperty(this, 'status', { value: 101 });
  }
}

/** Returns whether a request asks for a WebSocket: an upgrade may also name an unsupported protocol, such as h2c. */
export function asksForSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/** Checks the headers of a handshake. @throws HttpError 400, 426 if it cannot be answered */
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

/** Answers the handshake and hands the socket over. @param head the first bytes that came after the request */
export function openSocket(
  { take, gone, mostBytes }: UpgradeResponse,
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
  serverOf(mostBytes).handleUpgrade(incoming, connection, head, (socket) => {
    isTaken = true;
    take(socket);
  });
}

/** Returns the answer to a request to a socket's route that does not ask for an upgrade. */
export function lacksUpgrade(): Response {
  const message =
    'A request for a WebSocket is a GET with the headers Connection: Upgrade and Upgrade: websocket.';
  return errorResponse(new HttpError(426, message, 'upgrade_required', { upgrade: 'websocket' }));
}

/** Opens the gateway's end of a WebSocket. Messages sent before it is open leave once it is. */
export function acceptUpgrade(): { socket: ServerSocket; response: Response } {
  let open: WebSocket | null = null;
  let waiting: ((socket: WebSocket) => void)[] = [];
  let receiver: Parameters<ServerSocket['listen']>[0] | null = null;
  const whenOpen = (effect: (socket: WebSocket) => void) => {
    if (open) effect(open);
    else waiting.push(effect);
  };
  const take = (socket: WebSocket) => {
    open = socket;
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      receiver?.message(isBinary ? new Uint8Array(data).buffer : data.toString());
    });
    socket.on('close', () => receiver?.closed());
    // `ws` emits `close` after an error.
    socket.on('error', () => {});
    for (const effect of waiting) effect(socket);
    waiting = [];
  };
  const socket: ServerSocket = {
    listen: (given) => {
      receiver = given;
    },
    send: (text) =>
      whenOpen((socket) => {
        if (socket.bufferedAmount > MOST_UNREAD_BYTES) socket.terminate();
        else if (socket.readyState === socket.OPEN) socket.send(text);
      }),
    close: (code, reason) => whenOpen((socket) => socket.close(code, shortened(reason))),
  };
  return { socket, response: new UpgradeResponse(take, () => receiver?.closed()) };
}

/** Shortens a reason to the 123 bytes that a close frame holds. */
function shortened(reason: string): string {
  let text = reason;
  while (Buffer.byteLength(text) > 123) text = text.slice(0, -1);
  return text;
}
