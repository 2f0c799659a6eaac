/** What a timer counts on. */
export interface TimerClock {
  /** Epoch ms by the wall clock. */
  now(): number;
  /** Runs it once, `ms` from now by a clock that nobody sets. @returns takes it back */
  after(ms: number, run: () => void): () => void;
}

/** Later than this, ms, a timer is not for want of a free core: the wall clock was set forward. */
const LATE_MS = 1000;

/**
 * One timer, moved forward when something is due earlier. It does not come earlier by itself when the wall clock is set
 * forward, and all that is due later would wait for it: so it is set anew then.
 */
export class Timer {
  readonly #run: (at: number) => void;
  readonly #clock: TimerClock;
  #set: { at: number; firesAt: number; cancel: () => void } | null = null;

  /** @param run told when it was due, epoch ms */
  constructor(run: (at: number) => void, clock: TimerClock) {
    this.#run = run;
    this.#clock = clock;
  }

  /** To be called after every event. @param at epoch ms; null: nothing is due, and the timer stays as it is */
  arm(at: number | null): void {
    if (at === null) return;
    const now = this.#clock.now();
    const isLate = this.#set !== null && now - this.#set.firesAt > LATE_MS;
    if (this.#set !== null && this.#set.at <= at && !isLate) return;
    this.cancel();
    const ms = Math.max(1, at - now);
    const fire = () => {
      this.#set = null;
      this.#run(at);
    };
    this.#set = { at, firesAt: now + ms, cancel: this.#clock.after(ms, fire) };
  }

  cancel(): void {
    this.#set?.cancel();
    this.#set = null;
  }
}
