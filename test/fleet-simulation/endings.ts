/** What ends when, soonest first: a heap. */
export class Endings<T> {
  readonly #heap: { at: number; what: T }[] = [];

  /** Infinite: nothing is left. */
  get nextAt(): number {
    return this.#heap[0]?.at ?? Number.POSITIVE_INFINITY;
  }

  add(at: number, what: T): void {
    const heap = this.#heap;
    heap.push({ at, what });
    for (let index = heap.length - 1; index > 0; ) {
      const above = (index - 1) >> 1;
      if (heap[above]!.at <= heap[index]!.at) return;
      [heap[above], heap[index]] = [heap[index]!, heap[above]!];
      index = above;
    }
  }

  /** The soonest. */
  take(): T {
    const heap = this.#heap;
    const { what } = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return what;
    heap[0] = last;
    for (let index = 0; ; ) {
      let least = index;
      for (const below of [2 * index + 1, 2 * index + 2]) {
        if (below < heap.length && heap[below]!.at < heap[least]!.at) least = below;
      }
      if (least === index) return what;
      [heap[index], heap[least]] = [heap[least]!, heap[index]!];
      index = least;
    }
  }
}
