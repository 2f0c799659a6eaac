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

  /** Epoch ms by its own wall clock. */
  get now(): number {
    return this.#timeline.now + this.#offsetMs;
  }

  freeze(ms: number): void {
    this.frozenUntil = Math.max(this.frozenUntil, this.#timeline.now + ms);
  }

  /** Its wall clock is set forward. What is planned comes when it would have: timers count on a clock of their own. */
  setForward(ms: number): void {
    this.#offsetMs += ms;
  }

  /** @param time epoch ms by its own wall clock */
  at(time: number, run: () => void): Planned {
    const happen = () => {
      if (!planned.run) return;
      if (this.frozenUntil > this.#timeline.now) {
        this.#timeline.at(this.frozenUntil, happen);
        return;
      }
      planned.run = null;
      run();
    };
    const { at, order } = this.#timeline.at(time - this.#offsetMs, happen);
    const planned: Planned = { at: at + this.#offsetMs, order, run };
    return planned;
  }

  after(ms: number, run: () => void): Planned {
    return this.at(this.now + ms, run);
  }
}
