import type { Alarm, Sql } from '../../../durable/ports.ts';

/** The alarm of an object, stored in its database. The host fires it. */
export interface ObjectAlarm extends Alarm {
  /**
   * Notes that the host fires the alarm, which is then no longer set. The stored time stays until `fired` or until the
   * alarm is set again, so the alarm fires again if the process ends in between.
   * @returns the time for which it was set, epoch ms
   */
  fires(): number | null;
  /** Notes that the handler has succeeded. @throws Error if that cannot be written */
  fired(): void;
  /** Notes that the handler has failed: the alarm is set for the same time, unless it was set again. */
  failed(): void;
}

/** The table that stores the alarm. */
const TABLE = 'host_alarm';

/** Holds the alarm in memory; each commit stores it if it differs from the disk. */
export class KeptAlarm implements ObjectAlarm {
  readonly #sql: Sql;
  readonly #changes: () => void;
  #at: number | null;
  #stored: number | null;
  #isFiring = false;
  #firedFor: number | null = null;

  /** @param sql the database itself @param changes called before the alarm differs from the stored one */
  constructor(sql: Sql, changes: () => void) {
    this.#sql = sql;
    this.#changes = changes;
    this.#stored = storedAlarm(sql);
    this.#at = this.#stored;
  }

  get(): number | null {
    return this.#at;
  }

  /** Sets the alarm, for whole ms as on Cloudflare. */
  set(atMs: number): void {
    this.#put(Math.ceil(atMs));
  }

  clear(): void {
    this.#put(null);
  }

  fires(): number | null {
    const at = this.#at;
    this.#isFiring = true;
    this.#firedFor = at;
    this.#at = null;
    return at;
  }

  fired(): void {
    if (this.#isFiring && this.#at !== this.#stored) this.#changes();
    this.#isFiring = false;
  }

  failed(): void {
    // Setting the alarm needs no write: the disk still has the time for which it fired.
    this.#at ??= this.#firedFor;
    this.#isFiring = false;
  }

  /** Writes the alarm as part of a commit. @returns whether another time is stored now */
  write(): boolean {
    if (this.#at === this.#stored || (this.#isFiring && this.#at === null)) return false;
    if (this.#at === null) this.#sql.exec(`DELETE FROM ${TABLE}`);
    else {
      this.#sql.exec(`CREATE TABLE IF NOT EXISTS ${TABLE} (id INTEGER PRIMARY KEY, at INTEGER NOT NULL)`);
      this.#sql.exec(`INSERT OR REPLACE INTO ${TABLE} (id, at) VALUES (0, ?)`, this.#at);
    }
    this.#stored = this.#at;
    return true;
  }

  /** Remembers the alarm for a transaction that may be undone. @returns a function that restores it */
  mark(): () => void {
    const at = this.#at;
    return () => {
      this.#at = at;
    };
  }

  /** Forgets the alarm, whose table is gone. */
  forget(): void {
    this.#at = null;
    this.#stored = null;
  }

  #put(at: number | null): void {
    if (at === this.#at) return;
    this.#changes();
    this.#at = at;
  }
}

function storedAlarm(sql: Sql): number | null {
  const [table] = sql.exec(`SELECT 1 FROM sqlite_schema WHERE name = ?`, TABLE);
  const [row] = table ? sql.exec(`SELECT at FROM ${TABLE}`) : [];
  return row ? Number(row.at) : null;
}
