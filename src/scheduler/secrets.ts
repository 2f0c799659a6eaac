import type { Sql } from '../durable/ports.ts';
import { readState, writeState } from './state-table.ts';

/** Random names that the scheduler makes once and stores. */
export class Secrets {
  readonly #sql: Sql;
  readonly #randomName: (length: number) => string;

  constructor(sql: Sql, randomName: (length: number) => string) {
    this.#sql = sql;
    this.#randomName = randomName;
  }

  /** The installation's id, which tells the machines of this queue from those of others at the same provider. */
  get installation(): string {
    return this.#kept('installation', 8);
  }

  /** The key of the tokens of launched workers. */
  get token(): string {
    return this.#kept('token_secret', 50);
  }

  #kept(name: string, length: number): string {
    const known = readState<string>(this.#sql, name);
    if (known !== null) return known;
    const made = this.#randomName(length);
    writeState(this.#sql, name, made);
    return made;
  }
}
