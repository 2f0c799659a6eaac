/**
 * The soonest of many times, kept without looking at all of them after every event. It is never too late. It may be too
 * early, if the entry that it came from is gone: then there is nothing to do at that time, and it is computed again.
 */
export class Soonest {
  #atMs: number | null = null;
  #version = 0;

  /**
   * Returns the soonest time.
   * @param version of whatever else the times depend on; a change makes the stored time stale
   * @param find looks at all of them
   */
  get(version: number, find: () => number): number {
    if (this.#atMs === null || this.#version !== version) this.#atMs = find();
    this.#version = version;
    return this.#atMs;
  }

  /** Takes one more time into account. */
  lower(atMs: number): void {
    if (this.#atMs !== null) this.#atMs = Math.min(this.#atMs, atMs);
  }

  /** Forgets the soonest time, since what it came from is over. */
  forget(): void {
    this.#atMs = null;
  }
}
