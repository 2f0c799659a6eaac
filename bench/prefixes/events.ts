import { EventHeap, type TimedEvent } from '../../test/support/event-heap.ts';

interface Planned extends TimedEvent {
  run(): void;
}

/** The events to come, in virtual time. */
export class Events {
  /** Epoch ms */
  now: number;
  readonly #planned = new EventHeap<Planned>();
  #order = 0;

  constructor(now: number) {
    this.now = now;
  }

  at(at: number, run: () => void): void {
    this.#planned.add({ at, order: this.#order++, run });
  }

  /** Until nothing is planned any more. */
  run(): void {
    for (let next = this.#planned.take(); next !== undefined; next = this.#planned.take()) {
      this.now = next.at;
      next.run();
    }
  }
}
