import type { Alarm, Row, Sql, SqlValue } from './ports.ts';

/** Narrower rows are cheaper as the runtime's own objects, by half; one of 27 columns costs half as much again. */
const WIDE_COLUMNS = 8;

/** The database of a Durable Object as its rules take it. Wide rows are made here of arrays of values. */
export function sqlOf({ sql }: DurableObjectStorage): Sql {
  /** Names of the columns by query, of those that have answered rows; null: these are narrow. */
  const columns = new Map<string, string[] | null>();
  return {
    exec: (query: string, ...bindings: SqlValue[]) => {
      const cursor = sql.exec(query, ...bindings);
      const names = columns.get(query);
      if (names) return Array.from(cursor.raw<SqlValue[]>(), (values) => rowOf(names, values));
      const found = cursor.toArray() as Row[];
      if (names === undefined && found.length > 0) {
        const { columnNames } = cursor;
        columns.set(query, columnNames.length >= WIDE_COLUMNS ? columnNames : null);
      }
      return found;
    },
  };
}

function rowOf(names: readonly string[], values: readonly SqlValue[]): Row {
  const row: Row = {};
  for (let n = 0; n < names.length; n++) row[names[n]!] = values[n]!;
  return row;
}

/** The alarm of a Durable Object, which its rules read without waiting. */
export class StoredAlarm implements Alarm {
  readonly #storage: DurableObjectStorage;
  #at: number | null;

  private constructor(storage: DurableObjectStorage, at: number | null) {
    this.#storage = storage;
    this.#at = at;
  }

  static async read(storage: DurableObjectStorage): Promise<StoredAlarm> {
    return new StoredAlarm(storage, await storage.getAlarm());
  }

  get(): number | null {
    return this.#at;
  }

  set(atMs: number): void {
    this.#at = atMs;
    void this.#storage.setAlarm(atMs);
  }

  clear(): void {
    this.#at = null;
    void this.#storage.deleteAlarm();
  }

  /** The runtime calls the object's `alarm`: it is no longer set. */
  fired(): void {
    this.#at = null;
  }
}
