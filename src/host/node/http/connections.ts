import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { bodyRefusalOf, refusalOf, refuse } from './refusal.ts';
import { breakBody } from './request.ts';

/** A caller that has closed its side still gets answers that are ready within this many ms. */
const HALF_OPEN_MS = 1000;

/** A connection with more unanswered requests than this is broken off. */
const MOST_REQUESTS = 100;

/** The state of an open connection. */
interface Connection {
  /** The requests without a whole answer, each with the function to call when its caller is gone. */
  requests: Map<IncomingMessage, () => void>;
  isWebSocket: boolean;
}

/** The connections of a server. */
export class Connections {
  #areClosing = false;
  readonly #open = new Map<Socket, Connection>();
  readonly #refused = new WeakSet<Socket>();
  readonly #muteMs: number;

  /** @param muteMs how much longer a connection without a byte may stay when the time for a head is over */
  constructor(muteMs: number) {
    this.#muteMs = muteMs;
  }

  /** Whether the server takes no more requests. */
  get areClosing(): boolean {
    return this.#areClosing;
  }

  get count(): number {
    return this.#open.size;
  }

  /** The number of requests without a whole answer. */
  get unanswered(): number {
    let count = 0;
    for (const { requests } of this.#open.values()) count += requests.size;
    return count;
  }

  add(socket: Socket): void {
    const requests: Connection['requests'] = new Map();
    this.#open.set(socket, { requests, isWebSocket: false });
    let timer: NodeJS.Timeout | undefined;
    socket.once('end', () => {
      if (requests.size === 0) return;
      for (const gone of requests.values()) gone();
      timer = setTimeout(() => socket.destroy(), HALF_OPEN_MS);
    });
    socket.once('close', () => {
      clearTimeout(timer);
      this.#open.delete(socket);
      // Node 22 reports only to the first of several requests of a connection that its response is closed.
      for (const gone of requests.values()) gone();
    });
  }

  /**
   * Notes a new request.
   * @param gone called when the caller has left
   * @returns the function to call when the request has been answered
   */
  begin(socket: Socket, incoming: IncomingMessage, gone: () => void): () => void {
    const connection = this.#open.get(socket);
    connection?.requests.set(incoming, gone);
    if (connection && connection.requests.size > MOST_REQUESTS) socket.destroy();
    return () => {
      connection?.requests.delete(incoming);
      if (this.#areClosing) this.#endIdle();
    };
  }

  /** Marks a connection as a WebSocket, which ends by itself. */
  becomesWebSocket(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection) connection.isWebSocket = true;
  }

  /** Handles a connection that broke, or that carries something other than HTTP. */
  onFault(error: NodeJS.ErrnoException, socket: Socket): void {
    if (this.#refused.has(socket)) return;
    const requests = [...(this.#open.get(socket)?.requests.keys() ?? [])];
    const isMute = socket.bytesRead === 0;
    if (isMute && error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return this.#awaitFirstByte(socket);
    if (error.code === 'ECONNRESET' || isMute || !socket.writable) return void socket.destroy();
    if (requests.length > 0) {
      const unread = requests.find(({ complete }) => !complete);
      // The request's own answer reports the fault of its body. A caller that closed its side within the body is gone.
      if (unread && error.code !== 'HPE_INVALID_EOF_STATE') return breakBody(unread, bodyRefusalOf(error));
      // After the beginning of another answer a refusal would be taken for a part of that answer.
      return void socket.destroy();
    }
    this.#refused.add(socket);
    refuse(socket, refusalOf(error));
  }

  /**
   * Gives a connection without a byte more time. Node counts the time for a head from the beginning of the connection,
   * but a caller may have opened it ahead of its request, or have waited for its processor since. Once the first byte is
   * there, Node counts anew.
   */
  #awaitFirstByte(socket: Socket): void {
    const timer = setTimeout(() => {
      if (socket.bytesRead === 0) socket.destroy();
    }, this.#muteMs);
    socket.once('close', () => clearTimeout(timer));
  }

  /** Ends idle connections now, and the others once they have their answers. */
  close(): void {
    this.#areClosing = true;
    this.#endIdle();
  }

  #endIdle(): void {
    for (const [socket, { requests, isWebSocket }] of this.#open) {
      if (requests.size === 0 && !isWebSocket) socket.destroySoon();
    }
  }

  /** Breaks off all connections. */
  breakOff(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }
}
