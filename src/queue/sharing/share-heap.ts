import type { Share } from './share.ts';

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
