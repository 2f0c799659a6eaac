import type { Clock } from '../../src/worker/clock.ts';

/** Time that moves only when told to. */
export class VirtualClock implements Clock {
  #now = Date.parse('2026-01-01T00:00:00Z');
  #timers: { id: number; at: number; run: () => void }[] = [];
  #nextId = 1;

  now(): number {
    return this.#now;
  }

  setTimeout(run: () => void, ms: number): number {
    const id = this.#nextId++;
    this.#timers.push({ id, at: this.#now + ms, run });
    return id;
  }

  clearTimeout(timer: unknown): void {
    this.#timers = this.#timers.filter(({ id }) => id !== timer);
  }

  setImmediate(run: () => void): void {
    setImmediate(run);
  }

  /** Timers that are armed. */
  get armed(): number {
    return this.#timers.length;
  }

  /** The process is stopped for so long: what is due by then comes late, with the next `advance`. */
  standStill(ms: number): void {
    this.#now += ms;
  }

  /** Runs what is due within this time, promises included. `advance(0)` runs what is due now. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    for (;;) {
      await settled();
      const next = this.#timers.toSorted((a, b) => a.at - b.at || a.id - b.id)[0];
      if (!next || next.at > until) break;
      this.clearTimeout(next.id);
      this.#now = Math.max(this.#now, next.at);
      next.run();
    }
    this.#now = until;
  }
}

/** Lets every promise that can go on do so, and then what waited for the end of that turn. */
export async function settled(): Promise<void> {
  for (let turns = 0; turns < 2; turns++) await new Promise((resolve) => setImmediate(resolve));
}
