import { WORKER_TOKEN_HEADERS } from '../rpc.ts';
import type { Connection, Session, WorkerToken } from '../store/ports.ts';

/** The control sockets of one object, as the rules know them. */
export class Sockets {
  readonly #ctx: DurableObjectState;
  readonly #defer: (effect: () => void) => void;
  readonly #connections = new WeakMap<WebSocket, Connection>();
  /** Epoch ms of the last frame; pings are answered without waking this object and counted by the runtime. */
  readonly #heardAt = new WeakMap<WebSocket, number>();

  /** @param defer lets what is said to a peer out when it is on disk (commits.ts) */
  constructor(ctx: DurableObjectState, defer: (effect: () => void) => void) {
    this.#ctx = ctx;
    this.#defer = defer;
  }

  /** @param request the upgrade that it comes from */
  accept(socket: WebSocket, request: Request): void {
    this.#ctx.acceptWebSocket(socket, [crypto.randomUUID(), originOf(request)]);
    socket.serializeAttachment({ token: tokenOf(request), session: null } satisfies Attachment);
  }

  /** A frame came from it now. */
  heard(socket: WebSocket): Connection {
    this.#heardAt.set(socket, Date.now());
    return this.connection(socket);
  }

  connection(socket: WebSocket): Connection {
    const known = this.#connections.get(socket);
    if (known) return known;
    const [id = crypto.randomUUID(), origin] = this.#ctx.getTags(socket);
    const { token } = attachmentOf(socket);
    const connection: Connection = {
      id,
      origin,
      token,
      load: () => attachmentOf(socket).session,
      save: (session) => socket.serializeAttachment({ token, session } satisfies Attachment),
      send: (frame) => this.#send(socket, JSON.stringify(frame)),
      sendJob: (text) => this.#send(socket, text),
      close: (code, reason) => this.#defer(() => quietly(() => socket.close(code, reason))),
      lastHeardMs: () => this.#lastHeardMs(socket),
    };
    this.#connections.set(socket, connection);
    return connection;
  }

  #send(socket: WebSocket, text: string | Uint8Array<ArrayBuffer>): void {
    this.#defer(() => quietly(() => socket.send(text)));
  }

  /** What was heard before a hibernation is forgotten, but pings are not. */
  #lastHeardMs(socket: WebSocket): number {
    const pingedAt = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    const heardAt = Math.max(pingedAt, this.#heardAt.get(socket) ?? 0);
    return heardAt || (attachmentOf(socket).session?.connected_at ?? 0);
  }
}

/** What stays with a socket while the object hibernates. */
interface Attachment {
  token: WorkerToken | null;
  session: Session | null;
}

function attachmentOf(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}

/** As the gateway says in headers that only it sets. */
function tokenOf({ headers }: Request): WorkerToken | null {
  const [name, pattern] = [headers.get(WORKER_TOKEN_HEADERS.name), headers.get(WORKER_TOKEN_HEADERS.pattern)];
  if (name === null) return null;
  return {
    name: decodeURIComponent(name),
    worker_ids: pattern === null ? null : decodeURIComponent(pattern),
  };
}

/** What the worker dialled, as it must be dialled again: a proxy before us may have taken the encryption off. */
function originOf(request: Request): string {
  const url = new URL(request.url);
  const forwarded = request.headers.get('x-forwarded-proto')?.split(',')[0]?.trim().toLowerCase();
  const scheme = forwarded === 'https' || forwarded === 'http' ? `${forwarded}:` : url.protocol;
  return `${scheme}//${url.host}`;
}

/** A socket that is gone throws on use; its close event says the same and is handled there. */
function quietly(use: () => void): void {
  try {
    use();
  } catch {
    // Told by webSocketClose.
  }
}
