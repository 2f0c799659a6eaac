import { type Clock, sleep } from '../process/clock.ts';

/** A provider's interval is measured where requests arrive: two may come closer together than they were sent. */
const MARGIN = 1.1;

/**
 * Requests to one endpoint in their order, each at least an interval after the one before, and none before the provider
 * takes requests again.
 */
export class Pace {
  /** After a 429 that does not say how long to wait. */
  readonly penaltyMs: number;
  readonly #clock: Clock;
  readonly #intervalMs: number;
  #nextAt = 0;
  #heldUntil = 0;

  constructor(clock: Clock, intervalMs: number, penaltyMs = 5000) {
    this.#clock = clock;
    this.penaltyMs = penaltyMs;
    this.#intervalMs = intervalMs * MARGIN;
  }

  /**
   * Waits for its turn.
   * @param until epoch ms
   * @returns false at once if the turn would come later than that
   */
  async turn(until: number): Promise<boolean> {
    while (true) {
      const now = this.#clock.now();
      const at = Math.max(now, this.#nextAt, this.#heldUntil);
      if (at > until) return false;
      this.#nextAt = at + this.#intervalMs;
      if (at > now) await sleep(this.#clock, at - now);
      // Another request may have been told to wait meanwhile.
      if (this.#heldUntil <= this.#clock.now()) return true;
    }
  }

  /** The provider said that it takes nothing for so long. */
  hold(ms: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, this.#clock.now() + ms);
  }
}
