import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { CloseCode, HostSocket, Log } from '../../../durable/host.ts';
import { PeerWatch } from './peer-watch.ts';
import { plainCopy } from './plain-copy.ts';

/** Runs an effect outside the object once all that was written before is on disk, unless the object has ended. */
export type Leave = (effect: () => void) => void;

interface NodeSocketPorts {
  leave: Leave;
  now(): number;
  /** The peer's text that tests the connection, and the answer to it; undefined: such texts get no answer. */
  pings: { ping: string; pong: string } | undefined;
  message(message: string | Uint8Array<ArrayBuffer>): void;
  /** Called when the socket has closed. */
  closed(code: CloseCode): void;
  log: Log;
}

/** The longest reason in a close frame, bytes. */
const REASON_BYTES = 123;
/** The code that `ws` reports if the connection broke without a close frame. */
const BROKE = 1006;

const isCutOff = new WeakSet<WebSocket>();

/** Breaks a socket off because the way to its peer is gone. Its object hears of it as `cut off`. */
export function cutOff(webSocket: WebSocket): void {
  isCutOff.add(webSocket);
  webSocket.terminate();
}

/**
 * A WebSocket of a hosted object. Messages pass the object's output gate, in one write for each turn of the event loop.
 */
export class NodeSocket<Kept> implements HostSocket<Kept> {
  readonly id = randomUUID();
  readonly #socket: WebSocket;
  readonly #stream: Duplex;
  readonly #ports: NodeSocketPorts;
  readonly #watch: PeerWatch;
  #kept!: Kept;
  #pingedAt = 0;
  #isClosed = false;
  #isCorked = false;

  constructor(socket: WebSocket, ports: NodeSocketPorts) {
    this.#socket = socket;
    // `ws` offers no other access to its connection, which is needed to join frames in one write.
    this.#stream = (socket as unknown as { _socket: Duplex })._socket;
    this.#ports = ports;
    this.#watch = new PeerWatch(this.#stream, (why) => this.#giveUp(why));
    socket.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary));
    socket.on('close', (code) => {
      this.#watch.end();
      this.#isClosed = true;
      ports.closed(isCutOff.has(socket) ? 'cut off' : code === BROKE ? null : code);
    });
    // `ws` emits `close` after an error.
    socket.on('error', (error) => ports.log('debug', 'a WebSocket broke', { error: String(error) }));
  }

  get isClosing(): boolean {
    return this.#isClosed || this.#socket.readyState >= this.#socket.CLOSING;
  }

  /** The number of bytes that have come, also of a message that is not whole yet. */
  get received(): number {
    return (this.#stream as Socket).bytesRead;
  }

  load(): Kept {
    return this.#kept;
  }

  save(kept: Kept): void {
    this.#kept = plainCopy(kept, 'lent');
  }

  send(message: string | Uint8Array<ArrayBuffer>): void {
    this.#ports.leave(() => this.#write(message));
  }

  close(code: number, reason: string): void {
    this.#isClosed = true;
    this.#ports.leave(() => this.closeNow(code, reason));
  }

  /** Closes the socket without waiting for the output gate. */
  closeNow(code: number, reason: string): void {
    this.#isClosed = true;
    try {
      this.#socket.close(code, Buffer.from(reason).subarray(0, REASON_BYTES).toString());
    } catch {
      // The code is not one that may be sent.
      this.#socket.close();
    }
  }

  /** Breaks the connection. */
  drop(): void {
    this.#socket.terminate();
  }

  pingedAt(): number {
    return this.#pingedAt;
  }

  /** Sends a message that has passed the output gate. The frames of one turn take one system call. */
  #write(message: string | Uint8Array): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#stream.cork();
      setImmediate(() => {
        this.#isCorked = false;
        this.#stream.uncork();
      });
    }
    this.#socket.send(message);
    this.#watch.sent();
  }

  #receive(data: Buffer, isBinary: boolean): void {
    const { pings, now, message } = this.#ports;
    if (isBinary) return message(data as Buffer<ArrayBuffer>);
    const text = data.toString();
    if (text !== pings?.ping) return message(text);
    this.#pingedAt = now();
    this.#write(pings.pong);
  }

  #giveUp(why: string): void {
    this.#watch.end();
    this.#ports.log('warn', 'a WebSocket is given up', { why });
    this.#socket.terminate();
  }
}
