import { freeBytes } from '../../durable/free-bytes.ts';
import { type HostSocket, quietly } from '../../durable/host.ts';

/** A WebSocket that a Durable Object has accepted with the socket's id as its one tag. */
export class HibernatingSocket<Kept> implements HostSocket<Kept> {
  readonly id: string;
  readonly #ctx: DurableObjectState;
  readonly #socket: WebSocket;

  constructor(ctx: DurableObjectState, socket: WebSocket) {
    this.#ctx = ctx;
    this.#socket = socket;
    [this.id = crypto.randomUUID()] = ctx.getTags(socket);
  }

  get isClosing(): boolean {
    return this.#socket.readyState >= WebSocket.CLOSING;
  }

  load(): Kept {
    return this.#socket.deserializeAttachment() as Kept;
  }

  save(kept: Kept): void {
    this.#socket.serializeAttachment(kept);
  }

  send(message: string | Uint8Array<ArrayBuffer>): void {
    quietly(() => this.#socket.send(message));
    if (typeof message !== 'string') freeBytes(message);
  }

  close(code: number, reason: string): void {
    quietly(() => this.#socket.close(code, reason));
  }

  pingedAt(): number {
    return this.#ctx.getWebSocketAutoResponseTimestamp(this.#socket)?.getTime() ?? 0;
  }
}
