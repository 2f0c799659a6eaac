/** Something that will happen; cancelled ones keep their place and do nothing. */
export interface Planned {
  readonly at: number;
  readonly order: number;
  run: (() => void) | null;
}

/** The one clock and the queue of everything that is going to happen. Epoch ms, whole numbers. */
export class Timeline {
  static readonly START = Date.UTC(2026, 0, 1);
  now = Timeline.START;
  steps = 0;
  #heap: Planned[] = [];
  #order = 0;

  get isEmpty(): boolean {
    return this.#heap.length === 0;
  }

  at(time: number, run: () => void): Planned {
    const planned: Planned = { at: Math.max(this.now, Math.round(time)), order: this.#order++, run };
    this.#heap.push(planned);
    this.#rise(this.#heap.length - 1);
    return planned;
  }

  after(ms: number, run: () => void): Planned {
    return this.at(this.now + ms, run);
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Runs what comes next; false when nothing does. */
  step(): boolean {
    for (;;) {
      const next = this.#take();
      if (!next) return false;
      if (!next.run) continue;
      this.now = next.at;
      this.steps += 1;
      const { run } = next;
      next.run = null;
      run();
      return true;
    }
  }

  #take(): Planned | undefined {
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

function isBefore(a: Planned, b: Planned): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/** Lets every promise that can go on do so: macrotasks come after the last microtask. */
export function quiescent(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
