import { freeBytes } from '../../durable/free-bytes.ts';
import { quietly } from '../../durable/quietly.ts';
import { CLOSE, limits, messagesOf, OPTIMISATIONS } from '../../protocol/index.ts';
import { WORKER_TOKEN_HEADERS } from '../rpc.ts';
import type { Connection, Session, WorkerToken } from '../store/ports.ts';

/** The control sockets of one object, as the rules know them. */
export class Sockets {
  readonly #ctx: DurableObjectState;
  readonly #defer: (effect: () => void) => void;
  readonly #connections = new WeakMap<WebSocket, Connection>();
  /** Epoch ms of the last frame; pings are answered without waking this object and counted by the runtime. */
  readonly #heardAt = new WeakMap<WebSocket, number>();

  /** @param defer holds frames back until the commit that they report is on disk (commits.ts) */
  constructor(ctx: DurableObjectState, defer: (effect: () => void) => void) {
    this.#ctx = ctx;
    this.#defer = defer;
  }

  /** @param request the upgrade that it comes from */
  accept(socket: WebSocket, request: Request): void {
    this.#ctx.acceptWebSocket(socket, [crypto.randomUUID(), originOf(request)]);
    const [token, price_per_hour] = [tokenOf(request), priceIn(request)];
    socket.serializeAttachment({ token, price_per_hour, session: null } satisfies Attachment);
  }

  /** Notes that a message came. @returns null where the queue does not take it */
  heard(socket: WebSocket, message: string | ArrayBuffer): { connection: Connection; text: string } | null {
    // The queue has closed the socket: no message that comes after that counts.
    if (socket.readyState >= WebSocket.CLOSING) return null;
    this.#heardAt.set(socket, Date.now());
    const connection = this.connection(socket);
    if (typeof message !== 'string') {
      connection.send({ type: 'error', message: 'binary frames belong on the answer socket' });
    } else if (message.length > limits.FRAME_BYTES) {
      connection.close(CLOSE.tooLarge, `a frame may have ${limits.FRAME_BYTES} bytes`);
    } else return { connection, text: message };
    return null;
  }

  connection(socket: WebSocket): Connection {
    const known = this.#connections.get(socket);
    if (known) return known;
    const [id = crypto.randomUUID(), origin] = this.#ctx.getTags(socket);
    const { token, price_per_hour, session } = attachmentOf(socket);
    const said = new Said(socket, this.#defer, takesSeveral(session));
    const connection: Connection = {
      id,
      origin,
      token,
      price_per_hour,
      load: () => attachmentOf(socket).session,
      save: (session) => {
        said.takesSeveral = takesSeveral(session);
        socket.serializeAttachment({ token, price_per_hour, session } satisfies Attachment);
      },
      send: (frame) => said.send(JSON.stringify(frame)),
      sendJob: (frame) => said.send(frame),
      close: (code, reason) => this.#defer(() => quietly(() => socket.close(code, reason))),
      lastHeardMs: () => this.#lastHeardMs(socket),
    };
    this.#connections.set(socket, connection);
    return connection;
  }

  /** After a hibernation only the runtime still knows when it last heard the peer, by its pings. */
  #lastHeardMs(socket: WebSocket): number {
    const pingedAt = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    const heardAt = Math.max(pingedAt, this.#heardAt.get(socket) ?? 0);
    return heardAt || (attachmentOf(socket).session?.connected_at ?? 0);
  }
}

/** Sends to one peer: all texts that one event causes go in one message, if the peer takes several. */
class Said {
  readonly #socket: WebSocket;
  readonly #defer: (effect: () => void) => void;
  /** Texts to which more may be added. */
  #open: string[] | null = null;
  takesSeveral: boolean;

  constructor(socket: WebSocket, defer: (effect: () => void) => void, takesSeveral: boolean) {
    this.#socket = socket;
    this.#defer = defer;
    this.takesSeveral = takesSeveral;
  }

  send(frame: string | Uint8Array<ArrayBuffer>): void {
    if (typeof frame !== 'string' || !this.takesSeveral) {
      // Later texts must not overtake it.
      this.#open = null;
      this.#defer(() => this.#now(frame));
    } else if (this.#open) this.#open.push(frame);
    else this.#begin([frame]);
  }

  #begin(frames: string[]): void {
    this.#open = frames;
    this.#defer(() => {
      if (this.#open === frames) this.#open = null;
      for (const message of messagesOf(frames)) this.#now(message);
    });
  }

  #now(message: string | Uint8Array<ArrayBuffer>): void {
    quietly(() => this.#socket.send(message));
    if (typeof message !== 'string') freeBytes(message);
  }
}

function takesSeveral(session: Session | null): boolean {
  return OPTIMISATIONS.gatherFrames && (session?.extended ?? false);
}

/** What stays with a socket while the object hibernates. */
interface Attachment {
  token: WorkerToken | null;
  price_per_hour: number | null;
  session: Session | null;
}

function attachmentOf(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}

/** As the gateway says in headers that only it sets. */
function tokenOf({ headers }: Request): WorkerToken | null {
  const said = (of: keyof typeof WORKER_TOKEN_HEADERS) => {
    const value = headers.get(WORKER_TOKEN_HEADERS[of]);
    return value === null ? null : decodeURIComponent(value);
  };
  const name = said('name');
  if (name === null) return null;
  const [sha256, expires] = [said('sha256'), said('expires')];
  return {
    name,
    ...(sha256 !== null && { sha256 }),
    ...(expires !== null && { expires_at: Number(expires) }),
    worker_ids: said('pattern'),
    config_id: said('pool'),
  };
}

function priceIn({ headers }: Request): number | null {
  const price = headers.get(WORKER_TOKEN_HEADERS.price);
  return price === null ? null : Number(price);
}

/** The address that the worker dialled, and dials again: a proxy before us may have removed the encryption. */
function originOf(request: Request): string {
  const url = new URL(request.url);
  const forwarded = request.headers.get('x-forwarded-proto')?.split(',')[0]?.trim().toLowerCase();
  const scheme = forwarded === 'https' || forwarded === 'http' ? `${forwarded}:` : url.protocol;
  return `${scheme}//${url.host}`;
}
