import { DurableObject } from 'cloudflare:workers';
import type { ElsewhereEnv } from '../../moving/elsewhere/ask.ts';
import { type BrokenReason, limits } from '../../protocol/index.ts';
import type { RelayCalls } from '../calls.ts';
import { RelayHost } from './host.ts';

interface RelayEnv extends ElsewhereEnv {
  RECONNECT_GRACE_SECONDS?: string;
}

/** The Durable Object around the relay of one worker. */
export class RelayObject extends DurableObject<RelayEnv> implements RelayCalls {
  readonly #host: RelayHost;

  constructor(ctx: DurableObjectState, env: RelayEnv) {
    super(ctx, env);
    const reconnect_grace_seconds = Number(env.RECONNECT_GRACE_SECONDS ?? limits.RECONNECT_GRACE_SECONDS);
    this.#host = new RelayHost({ reconnect_grace_seconds }, env);
  }

  override fetch(request: Request): Promise<Response> {
    return this.#host.fetch(request);
  }

  async breakStream(stream: number, reason: BrokenReason): Promise<void> {
    this.#host.breakStream(stream, reason);
  }

  async closeSockets(): Promise<void> {
    this.#host.closeSocket();
  }
}
