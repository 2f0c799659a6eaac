import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Row, SqlValue } from '../../../durable/ports.ts';

/**
 * The most prepared statements, more than an object usually has: one with a list has a different text for each length.
 */
const MOST_STATEMENTS = 500;

/** Matches a statement that only reads; any other counts as one that writes. */
const READS = /^\s*(?:(?:SELECT|PRAGMA)\b|WITH\b(?![\s\S]*\b(?:INSERT|UPDATE|DELETE|REPLACE)\b))/i;

interface Prepared {
  statement: StatementSync;
  names: readonly string[];
  writes: boolean;
  bigInts: boolean;
}

/** Stores the prepared statements of one connection, by their text. */
export class Statements {
  readonly #database: DatabaseSync;
  /** The prepared statements by their text, the least recently used first. */
  readonly #prepared = new Map<string, Prepared>();

  constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /** Runs a statement. @param beforeWrite called before a statement that may write */
  run(query: string, bindings: readonly SqlValue[], beforeWrite: () => void): Row[] {
    const prepared = this.#prepare(query);
    if (prepared.writes) beforeWrite();
    return rowsOf(prepared, bindings);
  }

  /** Drops all statements, since their tables are gone. */
  forget(): void {
    this.#prepared.clear();
  }

  #prepare(query: string): Prepared {
    const found = this.#prepared.get(query);
    if (found) {
      this.#prepared.delete(query);
      this.#prepared.set(query, found);
      return found;
    }
    const statement = this.#database.prepare(query);
    const names = statement.columns().map(({ name }) => name);
    const writes = !READS.test(query);
    // A statement that writes cannot be run again once its integers turn out to be too large.
    const prepared = { statement, names, writes, bigInts: writes && names.length > 0 };
    // Making plain objects from arrays is faster than the objects of Node's SQLite binding.
    statement.setReturnArrays(true);
    statement.setReadBigInts(prepared.bigInts);
    this.#prepared.set(query, prepared);
    for (const oldest of this.#prepared.keys()) {
      if (this.#prepared.size <= MOST_STATEMENTS) break;
      this.#prepared.delete(oldest);
    }
    return prepared;
  }
}

function rowsOf(prepared: Prepared, bindings: readonly SqlValue[]): Row[] {
  const found = valuesOf(prepared, bindings);
  const { names, bigInts } = prepared;
  return found.map((values) => {
    const row: Row = {};
    for (let n = 0; n < names.length; n++) {
      const value = values[n]!;
      row[names[n]!] = bigInts && typeof value === 'bigint' ? Number(value) : (value as SqlValue);
    }
    return row;
  });
}

function valuesOf(prepared: Prepared, bindings: readonly SqlValue[]): (SqlValue | bigint)[][] {
  const { statement } = prepared;
  const ask = () => statement.all(...bindings) as unknown as (SqlValue | bigint)[][];
  try {
    return ask();
  } catch (error) {
    // The error means an integer beyond 2^53, which becomes the nearest number.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_OUT_OF_RANGE' || prepared.bigInts) throw error;
    prepared.bigInts = true;
    statement.setReadBigInts(true);
    return ask();
  }
}
