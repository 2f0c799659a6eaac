/** Work that still gathers after this many round trips is done all the same. */
const MOST_ROUND_TRIPS = 16;

/** Waits for the events that are on their way to an object. */
export class Gathering {
  readonly #roundTrip: () => Promise<void>;
  /** Events that the runtime has handed to the object. */
  #events = 0;

  /** @param roundTrip a call of the object to itself: it comes back after the events that were waiting when it was made */
  constructor(roundTrip: () => Promise<void>) {
    this.#roundTrip = roundTrip;
  }

  eventCame(): void {
    this.#events += 1;
  }

  /**
   * Resolves when a round trip brought no event, and the commit before is on disk. It takes round trips, not a timer:
   * timers of workerd stand still for as long as the clock is set back, and a round trip waits for the commit before it
   * anyway.
   */
  async gathered(): Promise<void> {
    try {
      for (let round = 0, before = -1; round < MOST_ROUND_TRIPS && this.#events > before; round += 1) {
        before = this.#events;
        await this.#roundTrip();
      }
    } catch {
      // What has come so far is done without the rest.
    }
  }
}
