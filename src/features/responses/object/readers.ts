/** Readers that wait for news of a response: further events, or its end. */
export class Readers {
  readonly #after: (ms: number, run: () => void) => () => void;
  readonly #waiting = new Map<string, Set<() => void>>();

  /** @param after runs something after some ms, and returns a function that cancels it */
  constructor(after: (ms: number, run: () => void) => () => void) {
    this.#after = after;
  }

  /** Resolves when there is news of a response, or after `waitMs`. */
  news(id: string, waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting);
      const over = () => {
        stop();
        waiting.delete(over);
        if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id);
        resolve();
      };
      const stop = this.#after(waitMs, over);
      waiting.add(over);
    });
  }

  tell(id: string): void {
    for (const over of [...(this.#waiting.get(id) ?? [])]) over();
  }
}
