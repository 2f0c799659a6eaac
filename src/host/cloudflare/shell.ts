import { DurableObject } from 'cloudflare:workers';
import { callsOf } from '../../durable/calls.ts';
import type { HostedObject, ObjectHost } from '../../durable/host.ts';
import { CLOSE } from '../../protocol/index.ts';
import { DurableObjectHost } from './object-host.ts';

/** The hosted object of a Durable Object, and the way to reach it. */
interface Holds<Env, Opened, Kept, Hosted extends HostedObject<Opened, Kept>> {
  /** The class of the hosted object: the shell offers each of its methods as a call. */
  hosted: { readonly prototype: Hosted };
  make(host: ObjectHost<Kept>, env: Env): Hosted | Promise<Hosted>;
  /** The namespace in which the shell calls itself. */
  namespace(env: Env): DurableObjectNamespace;
  /** Returns the arguments of the stub with a peer's upgrade (crossing.ts); left out: the object opens no sockets. */
  opened?(request: Request): Opened;
}

/**
 * Makes the class of a Durable Object that holds one hosted object and hands it its events. A named class must extend
 * it: `wrangler` and workerd know classes by name.
 */
export function shellOf<Env, Opened, Kept, Hosted extends HostedObject<Opened, Kept>>({
  hosted: { prototype },
  make,
  namespace,
  opened,
}: Holds<Env, Opened, Kept, Hosted>) {
  class Shell extends DurableObject<Env> {
    protected host!: DurableObjectHost<Kept>;
    protected hosted!: Hosted;

    constructor(ctx: DurableObjectState, env: Env) {
      super(ctx, env);
      ctx.blockConcurrencyWhile(async () => {
        const itself = () => namespace(env).get(ctx.id) as unknown as Shell;
        this.host = await DurableObjectHost.make<Kept>(ctx, () => itself().noop());
        this.hosted = await make(this.host, env);
        this.host.holds(this.hosted);
      });
    }

    /** Does nothing: the object's call of itself returns after the events that were waiting when it was made. */
    async noop(): Promise<void> {}

    override async fetch(request: Request): Promise<Response> {
      if (!opened) return new Response(null, { status: 404 });
      this.host.eventCame();
      const problem = this.hosted.mayOpen?.() ?? null;
      if (problem !== null) return new Response(problem, { status: 503 });
      const { 0: client, 1: server } = new WebSocketPair();
      this.hosted.opened?.(this.host.accept(server), opened(request));
      return new Response(null, { status: 101, webSocket: client });
    }

    override alarm(): Promise<void> {
      this.host.eventCame();
      return this.host.alarm.fires(this.host.now(), (setFor) => this.hosted.alarm?.(setFor));
    }

    override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
      this.host.eventCame();
      const given = typeof message === 'string' ? message : new Uint8Array(message);
      await this.hosted.message?.(this.host.socketOf(socket), given);
    }

    override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
      this.host.eventCame();
      const ended = this.host.socketOf(socket);
      // The codes 1005 and 1006 mean that no code or no close frame came, and may not be sent.
      ended.close(code === 1005 || code === 1006 ? CLOSE.done : code, '');
      await this.hosted.closed?.(ended, code === 1006 ? null : code);
    }

    override async webSocketError(socket: WebSocket): Promise<void> {
      this.host.eventCame();
      await this.hosted.closed?.(this.host.socketOf(socket), null);
    }
  }
  const calls = Shell.prototype as unknown as Record<string, unknown>;
  for (const name of callsOf(prototype)) {
    calls[name] = async function (this: Shell, ...asked: unknown[]) {
      const { host, hosted } = this as unknown as { host: DurableObjectHost<Kept>; hosted: Hosted };
      host.eventCame();
      return await (hosted as unknown as Record<string, (...asked: unknown[]) => unknown>)[name]!(...asked);
    };
  }
  return Shell;
}
