export const GONE = Symbol('caller gone');

/**
 * Tells whether a request's caller has hung up. An AbortController and its listeners cost the runtime ten times as
 * much.
 */
export class HangUp {
  #hasHappened = false;
  /** Are called when the caller hangs up. */
  #waiting: ((gone: typeof GONE) => void)[] = [];

  get hasHappened(): boolean {
    return this.#hasHappened;
  }

  /** Resolves when the caller hangs up. */
  get whenHappened(): Promise<typeof GONE> {
    return new Promise((resolve) => this.#tell(resolve));
  }

  happen(): void {
    this.#hasHappened = true;
    for (const tell of this.#waiting) tell(GONE);
    this.#waiting = [];
  }

  /** Resolves to the promise's value, or to GONE as soon as the caller has hung up. */
  or<T>(promise: Promise<T>): Promise<T | typeof GONE> {
    return new Promise((resolve, reject) => {
      this.#tell(resolve);
      promise.then(resolve, reject);
    });
  }

  #tell(gone: (gone: typeof GONE) => void): void {
    if (this.#hasHappened) gone(GONE);
    else this.#waiting.push(gone);
  }
}
