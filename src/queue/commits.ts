interface Parts {
  /** Runs it as one transaction: what it wrote is undone when it throws. */
  transaction<T>(work: () => T): T;
  /** After every box of work. */
  done(): void;
  /** Called once, at the first piece of work that throws. */
  failed(error: unknown): void;
}

/**
 * The order in which a queue object works. What arrives while a commit is on its way to disk gathers in one box
 * and is done, and committed, together.
 *
 * What a piece of work tells the world leaves when it is through. Should it throw, nothing of it does, but what
 * it changed in memory stays, and memory and disk differ: no work is done on that memory any more. Whoever asked
 * hears the error; the others hear nothing until the object is reset, and ask again then.
 */
export class Commits {
  readonly #parts: Parts;
  #box: (() => void)[] = [];
  /** What the piece at work tells the world; null between pieces. */
  #told: (() => void)[] | null = null;
  #hasFailed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Does the work together with whatever else arrives before the next turn: one commit for all of it. */
  together<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#box.push(() => this.#do(() => resolve(this.#parts.transaction(work)), reject));
      // A microtask is too early to gather anything.
      if (this.#box.length === 1) setTimeout(() => this.#empty(), 0);
    });
  }

  /** Does work that needs no commit, at once. */
  atOnce(work: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#do(() => resolve(work()), reject);
      this.#parts.done();
    });
  }

  /** Tells the world when the piece at work is through. */
  tell(effect: () => void): void {
    if (this.#told) this.#told.push(effect);
    else effect();
  }

  #empty(): void {
    const box = this.#box;
    this.#box = [];
    for (const piece of box) piece();
    this.#parts.done();
  }

  #do(work: () => void, reject: (error: unknown) => void): void {
    if (this.#hasFailed) return;
    const told: (() => void)[] = [];
    this.#told = told;
    try {
      work();
    } catch (error) {
      this.#hasFailed = true;
      reject(error);
      this.#parts.failed(error);
      return;
    } finally {
      this.#told = null;
    }
    for (const effect of told) effect();
  }
}
