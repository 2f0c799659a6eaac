import type { HostSocket, ObjectHost } from '../../durable/host.ts';
import { bounds, CLOSE, messagesOf } from '../../protocol/index.ts';
import type { WorkerDial } from '../rpc.ts';
import type { Connection, Session } from '../store/ports.ts';

/** The data that stays with a control socket while the object hibernates. */
export interface KeptOfWorker {
  dial: WorkerDial;
  session: Session | null;
}

type Socket = HostSocket<KeptOfWorker>;

/** The control sockets of one object, as the rules know them. */
export class Sockets {
  readonly #host: Pick<ObjectHost, 'now'>;
  readonly #defer: (effect: () => void) => void;
  readonly #connections = new WeakMap<Socket, Connection>();
  /**
   * The time of each socket's last frame, epoch ms. Pings do not count: the host answers them without waking this
   * object and notes their times.
   */
  readonly #heardAt = new WeakMap<Socket, number>();

  /** @param defer holds frames back until the commit that they report is on disk (commits.ts) */
  constructor(host: Pick<ObjectHost, 'now'>, defer: (effect: () => void) => void) {
    this.#host = host;
    this.#defer = defer;
  }

  /** Notes that a message came. @returns null where the queue does not take it */
  heard(
    socket: Socket,
    message: string | Uint8Array<ArrayBuffer>,
  ): { connection: Connection; text: string } | null {
    if (socket.isClosing) return null;
    this.#heardAt.set(socket, this.#host.now());
    const connection = this.connection(socket);
    if (typeof message !== 'string') {
      connection.send({ type: 'error', message: 'binary frames belong on the answer socket' });
    } else if (message.length > bounds.FRAME_BYTES) {
      connection.close(CLOSE.tooLarge, `a frame may have ${bounds.FRAME_BYTES} bytes`);
    } else return { connection, text: message };
    return null;
  }

  connection(socket: Socket): Connection {
    const known = this.#connections.get(socket);
    if (known) return known;
    const { dial, session } = socket.load();
    const said = new Said(socket, this.#defer, session?.extended ?? false);
    const connection: Connection = {
      id: socket.id,
      ...dial,
      load: () => socket.load().session,
      save: (session) => {
        said.takesSeveral = session?.extended ?? false;
        socket.save({ dial, session });
      },
      send: (frame) => said.send(JSON.stringify(frame)),
      sendJob: (frame) => said.send(frame),
      close: (code, reason) => this.#defer(() => socket.close(code, reason)),
      lastHeardMs: () => this.#lastHeardMs(socket),
    };
    this.#connections.set(socket, connection);
    return connection;
  }

  /**
   * Returns when the peer was last heard, epoch ms; after a hibernation only the host still knows, by the peer's pings.
   */
  #lastHeardMs(socket: Socket): number {
    const heardAt = Math.max(socket.pingedAt(), this.#heardAt.get(socket) ?? 0);
    return heardAt || (socket.load().session?.connected_at ?? 0);
  }
}

/** Sends to one peer: all texts that one event causes go in one message, if the peer takes several. */
class Said {
  readonly #socket: Socket;
  readonly #defer: (effect: () => void) => void;
  /** The texts of the next message, while more may be added; else null. */
  #open: string[] | null = null;
  takesSeveral: boolean;

  constructor(socket: Socket, defer: (effect: () => void) => void, takesSeveral: boolean) {
    this.#socket = socket;
    this.#defer = defer;
    this.takesSeveral = takesSeveral;
  }

  send(frame: string | Uint8Array<ArrayBuffer>): void {
    if (typeof frame !== 'string' || !this.takesSeveral) {
      // Later texts must not overtake this frame, so they begin a new message.
      this.#open = null;
      this.#defer(() => this.#socket.send(frame));
    } else if (this.#open) this.#open.push(frame);
    else this.#begin([frame]);
  }

  #begin(frames: string[]): void {
    this.#open = frames;
    this.#defer(() => {
      if (this.#open === frames) this.#open = null;
      for (const message of messagesOf(frames)) this.#socket.send(message);
    });
  }
}
