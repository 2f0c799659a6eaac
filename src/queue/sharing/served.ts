/** The width of one step, ms: an hour is counted in twelve steps of five minutes. */
const STEP_MS = 300_000;
const STEPS = 12;

/** A tenant's tokens, by the number of the step in which they were served. */
type Steps = Map<number, number>;

/**
 * Counts the tokens that tenants were served in the last hour, by pool, when they were served. The counts are in
 * memory: a queue that starts has none.
 */
export class Served {
  readonly #pools = new Map<string, Map<string | null, Steps>>();
  #sweptAt = 0;

  /** Counts tokens that a tenant was served. @param now epoch ms */
  add(
    { config_id, tenant }: { config_id: string; tenant: string | null },
    tokens: number,
    now: number,
  ): void {
    if (tokens === 0) return;
    this.#sweep(now);
    const tenants = this.#pools.get(config_id) ?? new Map<string | null, Steps>();
    this.#pools.set(config_id, tenants);
    const steps: Steps = tenants.get(tenant) ?? new Map();
    tenants.set(tenant, steps);
    const step = Math.floor(now / STEP_MS);
    steps.set(step, (steps.get(step) ?? 0) + tokens);
  }

  /** Returns the pools that served any tenant within the last hour. @param now epoch ms */
  pools(now: number): Iterable<string> {
    this.#sweep(now);
    return this.#pools.keys();
  }

  /** Returns the tokens of the last hour by tenant, the most first. @param now epoch ms */
  of(configId: string, now: number): { tenant: string | null; tokens: number }[] {
    this.#sweep(now);
    const tenants = [...(this.#pools.get(configId) ?? [])];
    const sums = tenants.map(([tenant, steps]) => ({ tenant, tokens: sum(steps) }));
    return sums.filter(({ tokens }) => tokens > 0).sort((one, other) => other.tokens - one.tokens);
  }

  /** Forgets the steps that are over an hour old, once in a step. */
  #sweep(now: number): void {
    const step = Math.floor(now / STEP_MS);
    if (step === this.#sweptAt) return;
    this.#sweptAt = step;
    for (const [pool, tenants] of this.#pools) {
      for (const [tenant, steps] of tenants) {
        for (const at of steps.keys()) if (at <= step - STEPS || at > step) steps.delete(at);
        if (steps.size === 0) tenants.delete(tenant);
      }
      if (tenants.size === 0) this.#pools.delete(pool);
    }
  }
}

function sum(steps: Steps): number {
  let tokens = 0;
  for (const part of steps.values()) tokens += part;
  return tokens;
}
