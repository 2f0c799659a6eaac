import type { EngineClient } from '../../engine/client/types.ts';
import type { Ports } from '../ports.ts';

/** A name that the engine does not serve makes it be asked again at most this often, ms. */
const ASK_AGAIN_AFTER_MS = 30_000;

export interface ServedModelsPorts {
  clock: Pick<Ports['clock'], 'now'>;
  engine: Pick<EngineClient, 'models'>;
}

/**
 * The names that the engine answers to, LoRA adapters included. It is asked when it becomes healthy, and again when a
 * job brings a name that it did not have then: adapters may be loaded while it runs.
 */
export class ServedModels {
  readonly #ports: ServedModelsPorts;
  readonly #aliases: ReadonlySet<string>;
  #names: readonly string[] = [];
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;

  /** @param configId names whatever the engine serves, as "default" does */
  constructor(ports: ServedModelsPorts, configId: string) {
    this.#ports = ports;
    this.#aliases = new Set(['default', configId]);
  }

  /** Names that mean whatever the engine serves. */
  get aliases(): ReadonlySet<string> {
    return this.#aliases;
  }

  /** The engine's own name for its model; undefined when it does not tell. */
  get own(): string | undefined {
    return this.#names[0];
  }

  set(names: readonly string[]): void {
    this.#names = names;
    this.#askedAtMs = this.#ports.clock.now();
  }

  /** The engine's own name in place of an alias, any other as it is. */
  named(model: string): string {
    return this.#aliases.has(model) ? (this.own ?? model) : model;
  }

  /** The same, and the engine's own name also in place of one that it does not serve. */
  served(model: string): string | Promise<string> {
    if (this.#aliases.has(model) || this.#names.includes(model)) return this.named(model);
    return this.#askAgain().then(() => (this.#names.includes(model) ? model : (this.own ?? model)));
  }

  async #askAgain(): Promise<void> {
    const { clock, engine } = this.#ports;
    if (!this.#asking && clock.now() - this.#askedAtMs < ASK_AGAIN_AFTER_MS) return;
    this.#asking ??= engine
      .models()
      .then((names) => this.set(names.length > 0 ? names : this.#names))
      .finally(() => {
        this.#asking = null;
      });
    await this.#asking;
  }
}
