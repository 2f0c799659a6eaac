/**
 * Implements fair share: within a priority, the tenant that was served least goes next. What a tenant was served is a
 * virtual counter of tokens (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): input and output
 * weighted, divided by the tenant's weight, charged as tokens are generated (attempts/charge.ts), and lifted to that of
 * the others when the tenant comes back from having nothing to do (fair-line.ts). docs/sharing.md says what fair share
 * promises.
 */

/** The weights of the paper: an output token costs an engine more than an input token. */
const INPUT_WEIGHT = 1;
const OUTPUT_WEIGHT = 2;

/** Returns the work of an engine for these tokens, in input tokens. */
export function costOf(input: number, output: number): number {
  return INPUT_WEIGHT * input + OUTPUT_WEIGHT * output;
}

/** The weight of a tenant's newest job in the expectation of its next. */
const NEWEST = 1 / 8;

/** Holds one tenant's part in the jobs of one pool and priority. */
export class Share<J> {
  /** The tenant; null: no access tokens are configured. */
  readonly tenant: string | null;
  /** What the tenant was served: weighted tokens, divided by its weight. */
  counter: number;
  /** The tenant's place in the heap of those who have something waiting; below 0: it has nothing waiting. */
  place = -1;
  /** The number of the tenant's latest entry into that heap: of equals, the earlier entry goes first. */
  since = 0;
  /** The number of the tenant's stored jobs that are ready. */
  stored = 0;
  /** The tenant's jobs whose callers wait, by model, in order, with the numbers of their entries. */
  readonly waiting = new Map<string | null, Map<J, number>>();
  #waitingJobs = 0;
  /** The tokens that the tenant's next job is expected to use; null: unknown. */
  #input: number | null = null;
  #output: number | null = null;

  /** Makes the share of a newcomer. @param counter the counter of the other tenants */
  constructor(tenant: string | null, counter: number) {
    this.tenant = tenant;
    this.counter = counter;
  }

  /** The number of the tenant's waiting jobs, of both modes. */
  get jobs(): number {
    return this.stored + this.#waitingJobs;
  }

  /** The expected cost of the tenant's next job; never 0, so that its jobs take turns with those of others. */
  get expectedCost(): number {
    return Math.max(1, costOf(this.expectedInput, this.expectedOutput));
  }

  get expectedInput(): number {
    return this.#input ?? 0;
  }

  get expectedOutput(): number {
    return this.#output ?? 0;
  }

  enter(model: string | null, job: J, order: number): void {
    const line = this.waiting.get(model) ?? new Map<J, number>();
    if (line.size === 0) this.waiting.set(model, line);
    line.set(job, order);
    this.#waitingJobs += 1;
  }

  leave(model: string | null, job: J): void {
    const line = this.waiting.get(model);
    if (!line?.delete(job)) return;
    if (line.size === 0) this.waiting.delete(model);
    this.#waitingJobs -= 1;
  }

  /** Returns the tenant's first jobs that wait for one of these models, in order. */
  firstFor(models: Iterable<string | null>, most: number, isWanted: (job: J) => boolean): J[] {
    const found: [J, number][] = [];
    for (const model of models) {
      let taken = 0;
      for (const entry of this.waiting.get(model) ?? []) {
        if (!isWanted(entry[0])) continue;
        found.push(entry);
        taken += 1;
        if (taken === most) break;
      }
    }
    found.sort(([, one], [, other]) => one - other);
    return found.slice(0, most).map(([job]) => job);
  }

  /** Adjusts the expectation to the tokens that one of the tenant's jobs used. */
  used(input: number, output: number): void {
    this.#input = this.#input === null ? input : this.#input + (input - this.#input) * NEWEST;
    this.#output = this.#output === null ? output : this.#output + (output - this.#output) * NEWEST;
  }
}
