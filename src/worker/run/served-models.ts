/** The names that the engine answers to, LoRA adapters included, as it told when it became healthy. */
export class ServedModels {
  readonly #aliases: ReadonlySet<string>;
  #names: readonly string[] = [];

  /** @param configId names whatever the engine serves, as "default" does */
  constructor(configId: string) {
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
  }

  /** The engine's own name in place of an alias, any other as it is. */
  named(model: string): string {
    return this.#aliases.has(model) ? (this.own ?? model) : model;
  }

  /** The same, and the engine's own name also in place of one that it does not serve. */
  served(model: string): string {
    return this.#names.includes(model) ? this.named(model) : (this.own ?? model);
  }
}
