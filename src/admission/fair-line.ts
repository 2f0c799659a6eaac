/**
 * Implements fair share: within a priority, the tenant that was served least goes next. What a tenant was served is a
 * virtual counter of tokens (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): input and output
 * weighted, divided by the tenant's weight, charged as tokens are generated (charge.ts), and lifted to that of the
 * others when the tenant comes back from having nothing to do. docs/sharing.md says what fair share promises.
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
  /** The tokens that the tenant was served, weighted and divided by its weight. */
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

/**
 * Holds the tenants that have something waiting, the least served first: a binary heap in which each tenant knows its
 * place.
 */
export class ShareHeap<J> {
  readonly #shares: Share<J>[] = [];

  get size(): number {
    return this.#shares.length;
  }

  get first(): Share<J> | null {
    return this.#shares[0] ?? null;
  }

  add(share: Share<J>): void {
    share.place = this.#shares.length;
    this.#shares.push(share);
    this.#rise(share);
  }

  /** Removes a tenant, if it is in the heap. */
  remove(share: Share<J>): void {
    const { place } = share;
    if (place < 0) return;
    share.place = -1;
    const last = this.#shares.pop()!;
    if (last === share) return;
    this.#put(last, place);
    this.moved(last);
  }

  /** Restores the heap's order after a change of this tenant's counter. */
  moved(share: Share<J>): void {
    if (share.place < 0) return;
    this.#rise(share);
    this.#sink(share);
  }

  /**
   * Yields the tenants in order. The heap must not change meanwhile. Each step costs the logarithm of the number of
   * tenants yielded before.
   */
  *inOrder(): Generator<Share<J>, void, undefined> {
    const next: Share<J>[] = this.#shares.slice(0, 1);
    for (let share = next.pop(); share !== undefined; share = next.pop()) {
      yield share;
      for (const child of this.#childrenOf(share.place)) insert(next, child);
    }
  }

  #childrenOf(place: number): Share<J>[] {
    return this.#shares.slice(2 * place + 1, 2 * place + 3);
  }

  #rise(share: Share<J>): void {
    while (share.place > 0) {
      const parent = this.#shares[(share.place - 1) >> 1]!;
      if (!goesBefore(share, parent)) return;
      this.#swap(share, parent);
    }
  }

  #sink(share: Share<J>): void {
    for (;;) {
      const left = this.#shares[2 * share.place + 1];
      const right = this.#shares[2 * share.place + 2];
      if (left === undefined) return;
      const child = right !== undefined && goesBefore(right, left) ? right : left;
      if (!goesBefore(child, share)) return;
      this.#swap(child, share);
    }
  }

  #swap(one: Share<J>, other: Share<J>): void {
    const { place } = one;
    this.#put(one, other.place);
    this.#put(other, place);
  }

  #put(share: Share<J>, place: number): void {
    this.#shares[place] = share;
    share.place = place;
  }
}

/** Inserts a tenant into a list that ends with the tenant that goes first. */
function insert<J>(list: Share<J>[], share: Share<J>): void {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (goesBefore(share, list[middle]!)) low = middle + 1;
    else high = middle;
  }
  list.splice(low, 0, share);
}

/** Applies the rule of fair share: who was served less goes first; of equals, who has waited longer. */
function goesBefore(one: Share<unknown>, other: Share<unknown>): boolean {
  return one.counter === other.counter ? one.since < other.since : one.counter < other.counter;
}

/** The number of tenants beyond which those with nothing waiting are forgotten, and return as newcomers. */
const MOST_SHARES = 10_000;

/** Holds the waiting jobs of one pool and priority, by tenant, and what their tenants were served there. */
export class FairLine<J> {
  readonly #shares = new Map<string | null, Share<J>>();
  readonly #backlog = new ShareHeap<J>();
  /**
   * The counter of a tenant that waited all along and was served as the others were. A tenant that comes back from
   * having nothing to do begins there at least. If it began at the smallest counter of those that wait, a row of
   * newcomers would hold up all others.
   */
  #floor = 0;
  #entries = 0;

  /** The number of tenants that have something waiting. */
  get size(): number {
    return this.#backlog.size;
  }

  share(tenant: string | null): Share<J> {
    const known = this.#shares.get(tenant);
    if (known) return known;
    if (this.#shares.size >= MOST_SHARES) this.#forgetIdle();
    const share = new Share<J>(tenant, this.#floor);
    this.#shares.set(tenant, share);
    return share;
  }

  /** Handles a change in the number of this tenant's waiting jobs. @param before the number before the change */
  changed(share: Share<J>, before: number): void {
    if (before === 0 && share.jobs > 0) {
      // A tenant does not save up service that it did not request.
      const least = this.#backlog.first?.counter ?? this.#floor;
      share.counter = Math.max(share.counter, least, this.#floor);
      share.since = ++this.#entries;
      this.#backlog.add(share);
    } else if (before > 0 && share.jobs === 0) this.#backlog.remove(share);
  }

  /** Returns the tenants that have something waiting, in the order in which they go. Nothing may change meanwhile. */
  inOrder(): Iterable<Share<J>> {
    return this.#backlog.inOrder();
  }

  /** Handles the dispatch of a job of this tenant. */
  serve(share: Share<J>): void {
    this.#floor = Math.max(this.#floor, share.counter);
  }

  /**
   * Charges a tenant.
   * @param tokens weighted tokens divided by the tenant's weight; below 0: it was charged too much
   */
  charge(share: Share<J>, tokens: number): void {
    const tenants = this.#backlog.size + (share.place < 0 ? 1 : 0);
    this.#floor += tokens / tenants;
    share.counter += tokens;
    this.#backlog.moved(share);
  }

  #forgetIdle(): void {
    for (const [tenant, { jobs }] of this.#shares) if (jobs === 0) this.#shares.delete(tenant);
  }
}
