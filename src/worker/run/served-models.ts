/** The names that the engine answers to, LoRA adapters included, as reported when it became healthy. */
export class ServedModels {
  readonly #aliases: ReadonlySet<string>;
  #names: readonly string[] = [];

  /** @param configId a name that stands for whatever the engine serves, as "default" does */
  constructor(configId: string) {
    this.#aliases = new Set(['default', configId]);
  }

  /** The names that stand for whatever the engine serves. */
  get aliases(): ReadonlySet<string> {
    return this.#aliases;
  }

  /** The engine's own name for its model; undefined when the engine does not report it. */
  get own(): string | undefined {
    return this.#names[0];
  }

  set(names: readonly string[]): void {
    this.#names = names;
  }

  /** Replaces an alias by the engine's own name, and returns any other name as it is. */
  named(model: string): string {
    return this.#aliases.has(model) ? (this.own ?? model) : model;
  }

  /** Replaces an alias, and also a name that the engine does not serve, by the engine's own name. */
  served(model: string): string {
    return this.#names.includes(model) ? this.named(model) : (this.own ?? model);
  }
}
