import type { QueueFrame } from '../../protocol/index.ts';
import type { Clock } from '../clock.ts';
import type { Socket, SocketEvents } from '../session/socket.ts';

export interface InsideEvents {
  text(text: string): void;
  /** Called when the worker has closed the connection. */
  closed(): void;
}

/** A connection whose other end is in this process; the session dials it instead of a queue. */
export class InsideConnection {
  readonly socket: Socket;
  readonly #clock: Pick<Clock, 'setImmediate'>;
  readonly #worker: SocketEvents;
  #isOpen = true;

  constructor(clock: Pick<Clock, 'setImmediate'>, worker: SocketEvents, own: InsideEvents) {
    this.#clock = clock;
    this.#worker = worker;
    const close = (code: number, reason: string) => {
      if (!this.#isOpen) return;
      this.#isOpen = false;
      own.closed();
      clock.setImmediate(() => worker.closed({ code, reason }));
    };
    this.socket = {
      send: (data) => {
        if (this.#isOpen && typeof data === 'string') own.text(data);
      },
      ping: () => clock.setImmediate(() => this.#isOpen && worker.pong()),
      close,
      destroy: () => close(1006, ''),
    };
    // A dial returns its socket before the socket opens.
    clock.setImmediate(() => this.#isOpen && worker.opened());
  }

  text(text: string): void {
    this.#later(() => this.#worker.text(text));
  }

  frame(frame: QueueFrame): void {
    this.#later(() => this.#worker.frame(frame));
  }

  /** Delivers in a later turn: as over a network, an answer never arrives while its request is being handled. */
  #later(deliver: () => void): void {
    this.#clock.setImmediate(() => {
      if (this.#isOpen) deliver();
    });
  }
}
