import { type EngineAnswer, type EngineCall, EngineGone } from '../../src/engine/client/types.ts';
import type { Clock } from '../../src/worker/clock.ts';
import { readBody } from '../support/engine-call.ts';
import type { Random } from '../support/random.ts';
import { ADAPTERS, type AdapterPlan } from './adapter-plan.ts';

export interface EngineAdaptersPorts {
  clock: Clock;
  random: Random;
  /** Share of loads that go wrong, now. */
  trouble(): number;
  isAlive(): boolean;
  violated(promise: string, message: string): void;
}

/** A request at the engine. */
interface User {
  readonly jobId: string;
  readonly worker: string;
}

/** The adapters of an engine: loaded and unloaded by its routes, and which requests use them. */
export class EngineAdapters {
  readonly #ports: EngineAdaptersPorts;
  readonly #plan: AdapterPlan;
  readonly loaded = new Set<string>();
  readonly #users = new Map<User, string>();

  constructor(ports: EngineAdaptersPorts, plan: AdapterPlan | null) {
    this.#ports = ports;
    this.#plan = plan ?? { names: [], room: 0 };
  }

  /** A route that loads or unloads; null: it is another. */
  route(call: EngineCall): Promise<EngineAnswer> | null {
    const [, what] = /^\/v1\/(load|unload)_lora_adapter$/.exec(call.path) ?? [];
    if (what === undefined) return null;
    const { lora_name } = readBody(call) as { lora_name: string };
    return what === 'load' ? this.#load(lora_name) : this.#unload(lora_name);
  }

  begun(exchange: User, model: string | undefined): void {
    if (model === undefined || !ADAPTERS.includes(model)) return;
    if (!this.loaded.has(model)) {
      const why = this.#plan.names.includes(model) ? 'not loaded' : 'unknown';
      this.#ports.violated(
        'a request meets its adapter',
        `${exchange.jobId}: "${model}" is ${why} at ${exchange.worker}`,
      );
    }
    this.#users.set(exchange, model);
  }

  ended(exchange: User): void {
    this.#users.delete(exchange);
  }

  async #load(name: string): Promise<EngineAnswer> {
    const { random, violated } = this.#ports;
    await this.#takeTime();
    if (random.chance(this.#ports.trouble())) return answer(500, 'the rank is too large');
    this.loaded.add(name);
    const { room } = this.#plan;
    if (this.loaded.size > room)
      violated('no more adapters than there is room for', `${[...this.loaded]}, not ${room}`);
    return answer(200, 'Success');
  }

  async #unload(name: string): Promise<EngineAnswer> {
    const user = [...this.#users].find(([, used]) => used === name);
    if (user) this.#ports.violated('an adapter in use stays', `${name} of ${user[0].jobId} is unloaded`);
    await this.#takeTime();
    this.loaded.delete(name);
    return answer(200, 'Success');
  }

  async #takeTime(): Promise<void> {
    const { clock, random, isAlive } = this.#ports;
    await new Promise<void>((resolve) => clock.setTimeout(resolve, random.wait(1000)));
    if (!isAlive()) throw new EngineGone('the engine died');
  }
}

function answer(status: number, text: string): EngineAnswer {
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(status < 300 ? text : JSON.stringify({ error: { message: text } }));
  }
  return { status, headers: {}, body: body() };
}
