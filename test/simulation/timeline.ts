import { EventHeap } from '../support/event-heap.ts';

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
  readonly #planned = new EventHeap<Planned>();
  #order = 0;

  get isEmpty(): boolean {
    return this.#planned.isEmpty;
  }

  at(time: number, run: () => void): Planned {
    const planned: Planned = { at: Math.max(this.now, Math.round(time)), order: this.#order++, run };
    this.#planned.add(planned);
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
      const next = this.#planned.take();
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
}

/** Lets every promise that can go on do so: macrotasks come after the last microtask. */
export function quiescent(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
