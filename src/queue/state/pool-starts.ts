import type { PoolStart } from '../../fleet/rpc.ts';

/**
 * Pools that the scheduler starts workers for, as the fleet object last reported. They are in memory alone: the fleet
 * object reports them with every answer to a report, and with the pool of a model that no connected worker serves.
 */
export class PoolStarts {
  #byId = new Map<string, PoolStart>();
  #text = '';

  /** Replaces all pools. @returns whether they differ from those before */
  replace(starts: readonly PoolStart[]): boolean {
    const text = JSON.stringify(starts);
    if (text === this.#text) return false;
    this.#text = text;
    this.#byId = new Map(starts.map((start) => [start.config_id, start]));
    return true;
  }

  /** Adds a pool that the fleet object has just reported. */
  add(start: PoolStart): void {
    this.#byId.set(start.config_id, start);
    this.#text = '';
  }

  all(): PoolStart[] {
    return [...this.#byId.values()];
  }

  of(configId: string): PoolStart | null {
    return this.#byId.get(configId) ?? null;
  }

  /** Returns the pool that callers mean by this name. */
  named(model: string): PoolStart | null {
    return this.of(model) ?? this.all().find(({ names }) => names.includes(model)) ?? null;
  }
}
