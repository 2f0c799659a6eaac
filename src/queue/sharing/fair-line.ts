import { Share } from './share.ts';
import { ShareHeap } from './share-heap.ts';

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
