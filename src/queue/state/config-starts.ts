import type { ConfigStart } from '../../fleet/rpc.ts';

/**
 * Configs that the scheduler starts workers for, as the fleet object last told. In memory alone: it tells them with
 * every answer to a report, and with the config of a model that nobody here serves.
 */
export class ConfigStarts {
  #byId = new Map<string, ConfigStart>();
  #text = '';

  /** All there are. @returns whether that is news */
  replace(starts: readonly ConfigStart[]): boolean {
    const text = JSON.stringify(starts);
    if (text === this.#text) return false;
    this.#text = text;
    this.#byId = new Map(starts.map((start) => [start.config_id, start]));
    return true;
  }

  /** One of which nothing was told yet. */
  add(start: ConfigStart): void {
    if (this.#byId.has(start.config_id)) return;
    this.#byId.set(start.config_id, start);
    this.#text = '';
  }

  all(): ConfigStart[] {
    return [...this.#byId.values()];
  }

  of(configId: string): ConfigStart | null {
    return this.#byId.get(configId) ?? null;
  }

  /** The config that callers mean by this name. */
  named(model: string): ConfigStart | null {
    return this.of(model) ?? this.all().find(({ names }) => names.includes(model)) ?? null;
  }
}
