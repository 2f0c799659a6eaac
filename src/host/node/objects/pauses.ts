/** The pause after the first failure, ms. Each further failure in a row doubles it, as Durable Objects do. */
const FIRST_MS = 2000;
const LONGEST_MS = 64_000;

/** Growing pauses before something that failed is tried again. They outlive the object that failed. */
export class Pauses {
  #failures = 0;
  /** The end of the pause, ms of `performance.now()`. */
  #notBefore = 0;

  failed(): void {
    this.#notBefore = performance.now() + Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures += 1;
  }

  worked(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  /** Returns the rest of the pause, ms. */
  leftMs(): number {
    return Math.max(0, this.#notBefore - performance.now());
  }
}
