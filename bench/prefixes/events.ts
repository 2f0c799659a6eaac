/** What happens when, in virtual time. */
export class Events {
  /** Epoch ms */
  now: number;
  /** A binary heap by time, then by the order in which they were planned. */
  readonly #heap: { at: number; order: number; run: () => void }[] = [];
  #planned = 0;

  constructor(now: number) {
    this.now = now;
  }

  at(at: number, run: () => void): void {
    this.#heap.push({ at, order: this.#planned++, run });
    let place = this.#heap.length - 1;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!this.#isBefore(place, parent)) return;
      this.#swap(place, parent);
      place = parent;
    }
  }

  /** Until nothing is planned any more. */
  run(): void {
    for (let next = this.#take(); next !== undefined; next = this.#take()) {
      this.now = next.at;
      next.run();
    }
  }

  #take() {
    this.#swap(0, this.#heap.length - 1);
    const next = this.#heap.pop();
    for (let place = 0; ; ) {
      let least = place;
      for (const child of [2 * place + 1, 2 * place + 2]) {
        if (child < this.#heap.length && this.#isBefore(child, least)) least = child;
      }
      if (least === place) return next;
      this.#swap(place, least);
      place = least;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one]!, this.#heap[other]!];
    return a.at < b.at || (a.at === b.at && a.order < b.order);
  }

  #swap(one: number, other: number): void {
    if (one === other || other < 0) return;
    [this.#heap[one], this.#heap[other]] = [this.#heap[other]!, this.#heap[one]!];
  }
}
