import { WebSocket } from 'ws';
import type { Log } from '../../../durable/host.ts';
import { doubling } from '../../../process/backoff.ts';
import { webSocketOptions } from '../../../process/web-socket-options.ts';
import { CLOSE, PING_TEXT, PONG_TEXT } from '../../../protocol/index.ts';
import { NodeSocket } from '../objects/socket.ts';
import type { RemotePort } from './remote-port.ts';

/** Another process that serves the same queue. */
export interface PeerProcess {
  /** The number of the process as a home. */
  home: number;
  /** The random name of the process. A later process with the same number has another. */
  instance: string;
  /** The address at which this process reaches it, without a trailing slash. */
  url: string;
}

/** A home pings its link this often, and either end gives a link up that was silent for long, ms. */
export const LINK_PING_MS = 2000;
export const LINK_SILENT_MS = 7000;

const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 1000;
const OPEN_WITHIN_MS = 5000;
/** A message is longer than a worker's by the number of its channel. */
const MOST_MESSAGE_BYTES = 33 * 1024 * 1024;

interface PeerDialPorts {
  url: string;
  secret(): string;
  /** Takes the link whenever it opens. */
  open(socket: NodeSocket<never>): RemotePort;
  /** Called when the process is not dialled any more. */
  ended(): void;
  log: Log;
}

/** Keeps this home linked to one other process: dials it, and again when the link breaks. */
export class PeerDial {
  readonly peer: PeerProcess;
  /** Whether the process is dialled again when the link breaks. */
  isWanted = true;
  readonly #ports: PeerDialPorts;
  #webSocket: WebSocket | null = null;
  #socket: NodeSocket<never> | null = null;
  #remote: RemotePort | null = null;
  #failures = 0;

  constructor(peer: PeerProcess, ports: PeerDialPorts) {
    this.peer = peer;
    this.#ports = ports;
    this.#dial();
  }

  /** Makes the relays that close their sockets leave the workers of the other process alone. */
  leave(): void {
    this.#remote?.leave();
  }

  /** Dials no more. A link that is open ends once what was sent has left. */
  stop(): void {
    this.isWanted = false;
    if (this.#socket) this.#socket.close(CLOSE.done, '');
    else this.#webSocket?.terminate();
  }

  #dial(): void {
    const { url, secret, log } = this.#ports;
    const webSocket = new WebSocket(url, {
      ...webSocketOptions(url),
      headers: { authorization: `Bearer ${secret()}` },
      handshakeTimeout: OPEN_WITHIN_MS,
      maxPayload: MOST_MESSAGE_BYTES,
    });
    this.#webSocket = webSocket;
    let isOpen = false;
    // `ws` emits `close` after an error.
    webSocket.on('error', (error) => {
      if (!isOpen && this.#failures === 0)
        log('warn', 'another process cannot be dialled', { error: error.message });
    });
    webSocket.once('open', () => {
      isOpen = true;
      this.#opened(webSocket);
    });
    webSocket.once('close', () => {
      if (!isOpen) this.#again();
    });
  }

  #opened(webSocket: WebSocket): void {
    const { log } = this.#ports;
    let heardAt = performance.now();
    let ping: NodeJS.Timeout;
    const guarded = (work: () => void) => {
      try {
        work();
      } catch (error) {
        log('error', 'the link to another process failed', { error: String(error) });
        socket.drop();
      }
    };
    const socket = new NodeSocket<never>(webSocket, {
      leave: (effect) => effect(),
      now: () => Date.now(),
      pings: undefined,
      message: (message) => {
        heardAt = performance.now();
        if (message !== PONG_TEXT) guarded(() => remote.message(message));
      },
      closed: () => {
        clearInterval(ping);
        this.#socket = null;
        guarded(() => remote.closed());
        this.#again();
      },
      log,
    });
    ping = setInterval(() => {
      if (performance.now() - heardAt > LINK_SILENT_MS) socket.drop();
      else socket.send(PING_TEXT);
    }, LINK_PING_MS);
    const remote = this.#ports.open(socket);
    this.#socket = socket;
    this.#remote = remote;
    this.#failures = 0;
  }

  #again(): void {
    if (!this.isWanted) return this.#ports.ended();
    this.#failures += 1;
    setTimeout(
      () => (this.isWanted ? this.#dial() : this.#ports.ended()),
      doubling(FIRST_WAIT_MS, LONGEST_WAIT_MS, this.#failures),
    );
  }
}
