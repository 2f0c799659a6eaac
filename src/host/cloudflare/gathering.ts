/** The most round trips that the wait for further events takes. */
const MOST_ROUND_TRIPS = 16;

/** Waits for the events that are on their way to an object. */
export class Gathering {
  readonly #roundTrip: () => Promise<void>;
  /** The number of events that the runtime has handed to the object. */
  #events = 0;

  /** @param roundTrip calls the object itself; it returns after the events that were waiting when it was called */
  constructor(roundTrip: () => Promise<void>) {
    this.#roundTrip = roundTrip;
  }

  eventCame(): void {
    this.#events += 1;
  }

  /**
   * Resolves when a round trip brought no event and the previous commit is on disk. Round trips replace a timer: timers
   * of workerd stand still after the clock was set back, and a round trip waits for the previous commit anyway.
   */
  async gathered(): Promise<void> {
    try {
      for (let round = 0, before = -1; round < MOST_ROUND_TRIPS && this.#events > before; round += 1) {
        before = this.#events;
        await this.#roundTrip();
      }
    } catch {
      // If a round trip fails, the events that have arrived so far are handled without the rest.
    }
  }
}
