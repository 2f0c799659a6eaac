import type { WebSocket } from 'ws';
import type { HostedObject, Log } from '../../../durable/host.ts';
import { CLOSE } from '../../../protocol/index.ts';
import { type Leave, NodeSocket } from './socket.ts';

/** An object of any class. */
export type Hosted = HostedObject<unknown, unknown> & object;

interface LifeSocketsPorts {
  now(): number;
  leave: Leave;
  /** Hands the object an event that nobody waits for. @param failed called if that throws and the object lives on */
  tell(what: string, tell: () => unknown, failed: () => void): void;
  /** Ends the object, which then has to be made again. */
  fail(): void;
  log: Log;
}

const RESTARTING = 'queue restarting';
/** The closing code of a peer whose message made the object fail. */
const INTERNAL_ERROR = 1011;

/** The open sockets of an object, which gets their events until it ends. */
export class LifeSockets {
  readonly #ports: LifeSocketsPorts;
  readonly #open = new Set<NodeSocket<unknown>>();
  #hasEnded = false;

  constructor(ports: LifeSocketsPorts) {
    this.#ports = ports;
  }

  get any(): boolean {
    return this.#open.size > 0;
  }

  all(): NodeSocket<unknown>[] {
    return [...this.#open];
  }

  /** Takes a socket that has just been opened. */
  open(hosted: Hosted, opened: unknown, webSocket: WebSocket): void {
    if (this.#hasEnded) return webSocket.close(CLOSE.restarting, RESTARTING);
    const { now, leave, tell, fail, log } = this.#ports;
    const socket: NodeSocket<unknown> = new NodeSocket<unknown>(webSocket, {
      leave,
      now,
      pings: hosted.pings,
      message: (message) => {
        if (!this.#hasEnded && !socket.isClosing)
          tell('a message', () => hosted.message?.(socket, message), giveUp);
      },
      closed: (code) => {
        if (this.#open.delete(socket) && !this.#hasEnded)
          tell('the end of a socket', () => hosted.closed?.(socket, code), fail);
      },
      log,
    });
    const giveUp = () => socket.closeNow(INTERNAL_ERROR, 'the queue failed');
    this.#open.add(socket);
    const refuse = () => {
      this.#open.delete(socket);
      giveUp();
    };
    tell('a new socket', () => hosted.opened?.(socket, opened), refuse);
  }

  /** Closes all sockets so that peers dial again; everything sent before still reaches them. */
  close(): void {
    for (const socket of this.#open) socket.close(CLOSE.restarting, RESTARTING);
  }

  /** Closes all sockets at once: the object has ended, and gets no more of their events. */
  end(): void {
    this.#hasEnded = true;
    for (const socket of this.#open) socket.closeNow(CLOSE.restarting, RESTARTING);
  }

  /** Breaks the connections whose peers have not answered the close. */
  drop(): void {
    for (const socket of this.#open) socket.drop();
  }
}
