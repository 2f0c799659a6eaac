import type { Alarm, Row, Sql, SqlValue } from './ports.ts';

/** The database of a Durable Object as its rules take it. */
export function sqlOf(storage: DurableObjectStorage): Sql {
  return {
    exec: (query: string, ...bindings: SqlValue[]) => storage.sql.exec(query, ...bindings).toArray() as Row[],
  };
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
