import type { Planned, Timeline } from './timeline.ts';

/**
 * Time as one process lives it. While it stands still, nothing that it planned happens: all of it does when the
 * process goes on, before anything that came over its connections meanwhile.
 */
export class ProcessTimeline {
  readonly #timeline: Timeline;
  /** Of its wall clock against the timeline, ms. */
  #offsetMs = 0;
  frozenUntil = 0;

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  /** Epoch ms by the wall clock of its machine. */
  get now(): number {
    return this.#timeline.now + this.#offsetMs;
  }

  freeze(ms: number): void {
    this.frozenUntil = Math.max(this.frozenUntil, this.#timeline.now + ms);
  }

  /** Its wall clock is set by so much. */
  setClock(byMs: number): void {
    this.#offsetMs += byMs;
  }

  /**
   * A timer or alarm: it counts on a clock of its own, so it does not come earlier when the wall clock is set
   * forward, but looks at the wall clock in the end, and waits when that was set back.
   * @param time epoch ms by the wall clock
   */
  at(time: number, run: () => void): Planned {
    return this.#plan(time - this.now, run, () => time - this.now);
  }

  /** What takes time without anybody looking at a clock. */
  after(ms: number, run: () => void): Planned {
    return this.#plan(ms, run, () => 0);
  }

  #plan(ms: number, run: () => void, leftMs: () => number): Planned {
    const happen = () => {
      if (!planned.run) return;
      const from = Math.max(this.frozenUntil, this.#timeline.now + leftMs());
      if (from > this.#timeline.now) {
        this.#timeline.at(from, happen);
        return;
      }
      planned.run = null;
      run();
    };
    const { at, order } = this.#timeline.after(Math.max(0, ms), happen);
    const planned: Planned = { at, order, run };
    return planned;
  }
}
