import { DurableObject } from 'cloudflare:workers';
import { freeBytes } from '../../durable/free-bytes.ts';
import { quietly } from '../../durable/host.ts';
import { type BrokenReason, bounds } from '../../protocol/index.ts';
import type { RelayCalls } from '../../relay/calls.ts';
import { RelayHost } from '../../relay/object/host.ts';
import { isUpgrade, wantedAnswer } from './crossing.ts';
import { type Bindings, environmentOf } from './environment.ts';

/** The Durable Object around the relay of one worker. */
export class RelayObject extends DurableObject<Bindings> implements RelayCalls {
  readonly #relay: RelayHost;

  constructor(ctx: DurableObjectState, bindings: Bindings) {
    super(ctx, bindings);
    const reconnect_grace_seconds = Number(
      bindings.RECONNECT_GRACE_SECONDS ?? bounds.RECONNECT_GRACE_SECONDS,
    );
    this.#relay = new RelayHost({ reconnect_grace_seconds }, environmentOf(bindings).objects, {
      now: () => Date.now(),
      after: (ms, run) => void setTimeout(run, ms),
    });
  }

  /** Takes the upgrade of a worker's answer socket, or the request of somebody who wants an answer. */
  override async fetch(request: Request): Promise<Response> {
    if (isUpgrade(request)) return this.#connect();
    const { stream, more, asked, isReplay } = wantedAnswer(request);
    if (isReplay) return await this.#relay.openReplay(stream, more, request.signal);
    request.signal.addEventListener('abort', () => this.#relay.gone(stream));
    return await this.#relay.open(stream, more, asked);
  }

  async breakStream(stream: number, reason: BrokenReason): Promise<void> {
    this.#relay.breakStream(stream, reason);
  }

  async closeSockets(): Promise<void> {
    this.#relay.closeSocket();
  }

  /** Opens the socket with `accept()`: hibernation would cost twice as much, and the socket is in use all the time. */
  #connect(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    server.accept();
    server.binaryType = 'arraybuffer';
    const events = this.#relay.connected({
      send: (message) => quietly(() => server.send(message)),
      close: (code, reason) => quietly(() => server.close(code, reason)),
    });
    server.addEventListener('message', ({ data }) => {
      const message = data as string | ArrayBuffer;
      const isRead = events.message(message);
      // A worker that sends faster than garbage is collected would fill the memory with bytes without a reader.
      if (!isRead && typeof message !== 'string') freeBytes(new Uint8Array(message));
    });
    server.addEventListener('close', () => events.closed());
    server.addEventListener('error', () => events.closed());
    return new Response(null, { status: 101, webSocket: client });
  }
}
