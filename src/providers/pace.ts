import { type Clock, sleep } from '../process/clock.ts';

/**
 * The factor on a provider's interval: the provider measures where requests arrive, and two may come closer together
 * than they were sent.
 */
const MARGIN = 1.1;

/**
 * Spaces the requests to one endpoint: each follows at least an interval after the one before, in their order, and
 * none is sent before the provider takes requests again.
 */
export class Pace {
  /** The pause after a 429 that does not say how long to wait, ms. */
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
   * Waits for a request's turn.
   * @param until epoch ms
   * @returns false at once if the turn would come later than `until`
   */
  async turn(until: number): Promise<boolean> {
    while (true) {
      const now = this.#clock.now();
      const at = Math.max(now, this.#nextAt, this.#heldUntil);
      if (at > until) return false;
      this.#nextAt = at + this.#intervalMs;
      if (at > now) await sleep(this.#clock, at - now);
      // An answer to another request may have asked for a pause meanwhile.
      if (this.#heldUntil <= this.#clock.now()) return true;
    }
  }

  /** Sends nothing for `ms`, since the provider takes nothing for that long. */
  hold(ms: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, this.#clock.now() + ms);
  }
}
