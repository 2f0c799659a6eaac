import { DurableObject } from 'cloudflare:workers';
import { type BrokenReason, limits } from '../../protocol/index.ts';
import type { RelayCalls } from '../../relay/calls.ts';
import { RelayHost } from '../../relay/object/host.ts';
import { isUpgrade, wantedAnswer } from './crossing.ts';
import { type Bindings, environmentOf } from './environment.ts';

/** The Durable Object around the relay of one worker. */
export class RelayObject extends DurableObject<Bindings> implements RelayCalls {
  readonly #host: RelayHost;

  constructor(ctx: DurableObjectState, bindings: Bindings) {
    super(ctx, bindings);
    const reconnect_grace_seconds = Number(
      bindings.RECONNECT_GRACE_SECONDS ?? limits.RECONNECT_GRACE_SECONDS,
    );
    this.#host = new RelayHost({ reconnect_grace_seconds }, environmentOf(bindings).objects);
  }

  /** A worker's answer socket, or somebody who wants an answer. */
  override async fetch(request: Request): Promise<Response> {
    if (isUpgrade(request)) return this.#host.connect();
    const { stream, more, asked, isReplay } = wantedAnswer(request);
    if (isReplay) return await this.#host.openReplay(stream, more, request.signal);
    request.signal.addEventListener('abort', () => this.#host.gone(stream));
    return await this.#host.open(stream, more, asked);
  }

  async breakStream(stream: number, reason: BrokenReason): Promise<void> {
    this.#host.breakStream(stream, reason);
  }

  async closeSockets(): Promise<void> {
    this.#host.closeSocket();
  }
}
