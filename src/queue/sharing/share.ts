/**
 * Fair share: within a priority the tenant that was served least goes next. What a tenant was served is a virtual
 * counter of tokens (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): input and output weighted,
 * divided by the tenant's weight, charged as tokens come (attempts/charge.ts), and lifted to that of the others when it
 * comes back from having nothing to do (fair-line.ts). docs/sharing.md says what that promises.
 */

/** An output token costs an engine more than one of the prompt: the weights of the paper. */
const INPUT_WEIGHT = 1;
const OUTPUT_WEIGHT = 2;

/** What an engine does for these, in tokens of a prompt. */
export function costOf(input: number, output: number): number {
  return INPUT_WEIGHT * input + OUTPUT_WEIGHT * output;
}

/** Weight of the newest job in what a tenant's next is expected to be. */
const NEWEST = 1 / 8;

/** One tenant among the jobs of one pool and priority. */
export class Share<J> {
  /** Null: no tokens are configured. */
  readonly tenant: string | null;
  /** What it was served: weighted tokens, divided by its weight. */
  counter: number;
  /** Its place in the heap of those who have something waiting; below 0: it has nothing. */
  place = -1;
  /** Number of its entry among those. */
  since = 0;
  /** Its stored jobs that are ready. */
  stored = 0;
  /** Those of its jobs whose callers wait, with the numbers of their entries, by model and in order. */
  readonly waiting = new Map<string | null, Map<J, number>>();
  #waitingJobs = 0;
  /** Of its jobs: what the next one is expected to be, tokens; null: nothing is known. */
  #input: number | null = null;
  #output: number | null = null;

  /** @param counter that of the others */
  constructor(tenant: string | null, counter: number) {
    this.tenant = tenant;
    this.counter = counter;
  }

  /** Jobs that wait, of both modes. */
  get jobs(): number {
    return this.stored + this.#waitingJobs;
  }

  /** Of its next job; never 0, so that of several one goes after another. */
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

  /** Its first jobs that wait for one of these models, in order. */
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

  /** A job of it used so many tokens. */
  used(input: number, output: number): void {
    this.#input = this.#input === null ? input : this.#input + (input - this.#input) * NEWEST;
    this.#output = this.#output === null ? output : this.#output + (output - this.#output) * NEWEST;
  }
}
