import type { Sql } from './ports.ts';
import { reserveNumbers } from './tables.ts';

/** Numbers reserved with one row; a restart skips what was left of its block. */
const BLOCK = 65_536;

/**
 * Hands out numbers that grow over the life of the queue and never come twice: fence tokens, one a dispatch,
 * and the numbers of ledger steps. They come from blocks reserved on disk, so that a transient dispatch
 * costs no commit.
 */
export class Numbers {
  readonly #sql: Sql;
  readonly #key: string;
  #next = 0;
  #end = 0;

  /** @param key where `meta` keeps the next block */
  constructor(sql: Sql, key: 'next_fence' | 'next_step') {
    this.#sql = sql;
    this.#key = key;
  }

  next(): number {
    if (this.#next === this.#end) {
      this.#next = reserveNumbers(this.#sql, this.#key, BLOCK);
      this.#end = this.#next + BLOCK;
    }
    return this.#next++;
  }
}

/** The relay knows a stream by 32 bits of its fence token: unique among all that can be alive together. */
export function streamIdOf(fenceToken: number): number {
  return fenceToken % 2 ** 32;
}
