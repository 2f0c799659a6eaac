/** The time of an event; of events at the same time the one with the lower order goes first. */
export interface TimedEvent {
  readonly at: number;
  readonly order: number;
}

/** The coming events in virtual time, the next first, as a binary heap. */
export class EventHeap<T extends TimedEvent> {
  readonly #heap: T[] = [];

  get isEmpty(): boolean {
    return this.#heap.length === 0;
  }

  add(event: T): void {
    this.#heap.push(event);
    this.#rise(this.#heap.length - 1);
  }

  take(): T | undefined {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined) return undefined;
    if (heap.length > 0) {
      heap[0] = last;
      this.#sink();
    }
    return first;
  }

  #rise(from: number): void {
    const heap = this.#heap;
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!isBefore(heap[at]!, heap[above]!)) return;
      [heap[at], heap[above]] = [heap[above]!, heap[at]!];
      at = above;
    }
  }

  #sink(): void {
    const heap = this.#heap;
    let at = 0;
    for (;;) {
      let least = at;
      for (const below of [2 * at + 1, 2 * at + 2]) {
        if (below < heap.length && isBefore(heap[below]!, heap[least]!)) least = below;
      }
      if (least === at) return;
      [heap[at], heap[least]] = [heap[least]!, heap[at]!];
      at = least;
    }
  }
}

function isBefore(a: TimedEvent, b: TimedEvent): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
