/** The clocks that a timer counts on. */
export interface TimerClock {
  /** Returns epoch ms by the wall clock. */
  now(): number;
  /** Runs `run` once, `ms` from now by a clock that nobody sets. @returns what cancels it */
  after(ms: number, run: () => void): () => void;
}

/** A timer later than this many ms is not late for want of a free core: the wall clock was set forward. */
const LATE_MS = 1000;

/**
 * Keeps one timer, and moves it forward when something is due earlier. If the wall clock is set forward, the timer does
 * not fire earlier by itself, and all that is due later would wait for it, so it is set anew.
 */
export class Timer {
  readonly #run: (at: number) => void;
  readonly #clock: TimerClock;
  #set: { at: number; firesAt: number; cancel: () => void } | null = null;

  /** @param run receives the epoch ms at which it was due */
  constructor(run: (at: number) => void, clock: TimerClock) {
    this.#run = run;
    this.#clock = clock;
  }

  /**
   * Sets the timer; to be called after every event.
   * @param at epoch ms; null if nothing is due, which leaves the timer as it is
   */
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
