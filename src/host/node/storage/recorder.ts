import type { SqlValue } from '../../../durable/ports.ts';

/** A statement that wrote, with its bindings. */
export type Write = readonly [query: string, ...bindings: SqlValue[]];

/** Takes the writes of one database, commit by commit. */
export interface CommitTaker {
  /** Called with what was just committed, before any output that waits for it. */
  committed(writes: readonly Write[]): void;
  /** Calls back when everything committed up to now is stored elsewhere; never, if that fails for good. */
  whenStored(done: () => void): void;
}

/** Collects the writes of a transaction, in order. */
export class Recorder {
  #writes: Write[] = [];

  wrote(query: string, bindings: readonly SqlValue[]): void {
    this.#writes.push([query, ...bindings]);
  }

  /** Remembers this moment. @returns a function that forgets the writes after it, which were undone */
  mark(): () => void {
    const count = this.#writes.length;
    return () => {
      // There are fewer if the whole transaction was undone.
      this.#writes.length = Math.min(count, this.#writes.length);
    };
  }

  /** Returns the writes since the last call, which are committed now or undone. */
  take(): Write[] {
    const writes = this.#writes;
    this.#writes = [];
    return writes;
  }
}
