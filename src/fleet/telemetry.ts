import type { Sql } from '../durable/ports.ts';
import type { TelemetryItem, TelemetryKind, TelemetryPage, TelemetryQuery } from './rpc.ts';

/** The most items of one worker, by kind: log lines of a crash and of the hours before it, six hours of samples. */
const MOST_ITEMS: Record<TelemetryKind, number> = { logs: 2000, metrics: 720 };
/** The largest size of one worker's items of a kind, and of all workers' items of a queue, UTF-16 units of JSON. */
const MOST_SIZE = 512 * 1024;
const MOST_SIZE_IN_ALL = 64 * 1024 * 1024;
/** A row takes more items up to this size, which means few rows a worker and little to write again. */
const ROW_SIZE = 32 * 1024;
const ROW_ITEMS = 200;
/** Unsaved items beyond this size are stored at once, UTF-16 units. */
const MOST_UNSAVED_SIZE = 4 * 1024 * 1024;

interface Unsaved extends Source {
  /** The number of the first item. */
  first: number;
  /** The JSON of each item. */
  texts: string[];
  size: number;
}

export interface TelemetryPorts {
  sql: Sql;
  /** Returns the time, epoch ms. */
  now(): number;
}

/**
 * Stores the newest log lines and samples of each worker. They are numbered as they come, gathered for a second and
 * stored together. Their number, size and age are bounded, for each worker and in all.
 */
export class Telemetry {
  readonly #ports: TelemetryPorts;
  readonly #unsaved = new Map<string, Unsaved>();
  #unsavedSize = 0;

  constructor(ports: TelemetryPorts) {
    this.#ports = ports;
  }

  /** Whether so much waits to be stored that it must not wait for the next second. */
  get isFull(): boolean {
    return this.#unsavedSize >= MOST_UNSAVED_SIZE;
  }

  add(source: Source, items: readonly TelemetryItem[]): void {
    const unsaved = this.#unsavedOf(source);
    for (const item of items) {
      const text = JSON.stringify(item);
      unsaved.texts.push(text);
      unsaved.size += text.length;
      this.#unsavedSize += text.length;
    }
    this.#dropOldest(unsaved);
  }

  /** Stores what came since the last save: one row for each worker and kind, or more where much came. */
  save(): void {
    const { sql, now } = this.#ports;
    for (const unsaved of this.#unsaved.values()) {
      for (const row of rowsOf(unsaved, newestItems(sql, unsaved))) saveItems(sql, unsaved, row, now());
      forgetItemsOf(sql, unsaved, MOST_ITEMS[unsaved.kind], MOST_SIZE);
    }
    this.#unsaved.clear();
    this.#unsavedSize = 0;
  }

  /** Reads items in the order of their numbers: the first ones after `after`, else the last ones before `before`. */
  read(source: Source, { after, before, limit }: TelemetryQuery): TelemetryPage {
    const low = after ?? Number.NEGATIVE_INFINITY;
    const high = before ?? Number.MAX_SAFE_INTEGER;
    const stored = itemsBetween(this.#ports.sql, source, after ?? -1, high);
    const unsaved = this.#unsaved.get(keyOf(source));
    const found = [
      ...stored.flatMap(({ first, items }) => numbered(first, JSON.parse(items) as TelemetryItem[])),
      ...(unsaved
        ? numbered(
            unsaved.first,
            unsaved.texts.map((text) => JSON.parse(text) as TelemetryItem),
          )
        : []),
    ].filter(({ number }) => number > low && number < high);
    const items = after === undefined ? found.slice(-limit) : found.slice(0, limit);
    return { items, has_more: items.length < found.length };
  }

  /**
   * Deletes what was last written by `writtenBy`, and what is too much in all.
   * @returns when the row that was not written for the longest was written, epoch ms; null: there is none
   */
  bound(writtenBy: number): number | null {
    forgetItems(this.#ports.sql, writtenBy, MOST_SIZE_IN_ALL);
    return longestUnwritten(this.#ports.sql);
  }

  #unsavedOf(source: Source): Unsaved {
    const key = keyOf(source);
    let unsaved = this.#unsaved.get(key);
    if (!unsaved) {
      const newest = newestItems(this.#ports.sql, source);
      const first = newest ? newest.first + newest.count : 0;
      unsaved = { worker_id: source.worker_id, kind: source.kind, first, texts: [], size: 0 };
      this.#unsaved.set(key, unsaved);
    }
    return unsaved;
  }

  /** Drops the items that would be forgotten as soon as they are stored. */
  #dropOldest(unsaved: Unsaved): void {
    let dropped = 0;
    let size = 0;
    while (unsaved.texts.length - dropped > MOST_ITEMS[unsaved.kind] || unsaved.size - size > MOST_SIZE) {
      size += unsaved.texts[dropped++]!.length;
    }
    if (dropped === 0) return;
    unsaved.texts.splice(0, dropped);
    unsaved.first += dropped;
    unsaved.size -= size;
    this.#unsavedSize -= size;
  }
}

function keyOf({ kind, worker_id }: Source): string {
  return `${kind} ${worker_id}`;
}

function numbered(first: number, items: readonly TelemetryItem[]): TelemetryPage['items'] {
  return items.map((item, index) => ({ number: first + index, ...item }));
}

/** Builds the rows to write: the newest stored row, filled up if the items follow on it, then new rows. */
function rowsOf(unsaved: Unsaved, newest: ReturnType<typeof newestItems>) {
  const isOpen = newest !== null && newest.first + newest.count === unsaved.first && hasRoom(newest);
  let row = isOpen ? { ...newest, items: newest.items.slice(1, -1) } : emptyRow(unsaved.first);
  const rows = [row];
  for (const text of unsaved.texts) {
    if (row.count > 0 && !hasRoom(row)) {
      row = emptyRow(row.first + row.count);
      rows.push(row);
    }
    row.items += row.count === 0 ? text : `,${text}`;
    row.count += 1;
    row.size += text.length;
  }
  return rows.map((written) => ({ ...written, items: `[${written.items}]` }));
}

function emptyRow(first: number) {
  return { first, count: 0, size: 0, items: '' };
}

function hasRoom({ count, size }: { count: number; size: number }): boolean {
  return count < ROW_ITEMS && size < ROW_SIZE;
}

/** Items of one worker that came after each other, as they are stored. */
interface StoredItems {
  /** The number of the first item. */
  first: number;
  count: number;
  /** The length of the items' JSON, UTF-16 units. */
  size: number;
  /** The items as the JSON of a list. */
  items: string;
}

export interface Source {
  worker_id: string;
  kind: TelemetryKind;
}

/** Reads the rows of one worker that hold numbers between these, exclusive, in order. */
function itemsBetween(sql: Sql, of: Source, after: number, before: number): StoredItems[] {
  const rows = sql.exec(
    `SELECT first, count, size, items FROM telemetry
     WHERE worker_id = ? AND kind = ? AND first < ? AND first + count - 1 > ? ORDER BY first`,
    of.worker_id,
    of.kind,
    before,
    after,
  );
  return rows as unknown as StoredItems[];
}

/** Reads the newest row of a worker and kind, or null if there is none. */
function newestItems(sql: Sql, of: Source): StoredItems | null {
  const [row] = sql.exec(
    `SELECT first, count, size, items FROM telemetry WHERE worker_id = ? AND kind = ?
     ORDER BY first DESC LIMIT 1`,
    of.worker_id,
    of.kind,
  );
  return (row as unknown as StoredItems | undefined) ?? null;
}

/** Stores a row, or replaces the one with the same first number. */
function saveItems(sql: Sql, of: Source, { first, count, size, items }: StoredItems, at: number): void {
  sql.exec(
    `INSERT INTO telemetry (worker_id, kind, first, count, size, at, items) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (worker_id, kind, first) DO UPDATE SET count = excluded.count, size = excluded.size,
       at = excluded.at, items = excluded.items`,
    of.worker_id,
    of.kind,
    first,
    count,
    size,
    at,
    items,
  );
}

/** Deletes rows of one worker that lie wholly beyond this many items, or units, counted from the newest. */
function forgetItemsOf(sql: Sql, of: Source, mostItems: number, mostSize: number): void {
  sql.exec(
    `DELETE FROM telemetry WHERE worker_id = ?1 AND kind = ?2 AND first IN (
       SELECT first FROM (
         SELECT first, sum(count) OVER newer - count AS items_after, sum(size) OVER newer - size AS size_after
         FROM telemetry WHERE worker_id = ?1 AND kind = ?2 WINDOW newer AS (ORDER BY first DESC))
       WHERE items_after >= ?3 OR size_after >= ?4)`,
    of.worker_id,
    of.kind,
    mostItems,
    mostSize,
  );
}

/** The size of a row beside its items, UTF-16 units: names and numbers, indexes included. */
const ROW_COSTS = 1000;

/** Deletes rows last written by `writtenBy`, and the oldest rows of all workers together beyond `mostSize`. */
function forgetItems(sql: Sql, writtenBy: number, mostSize: number): void {
  sql.exec(`DELETE FROM telemetry WHERE at <= ?`, writtenBy);
  const size = Number(sql.exec(`SELECT total(size + ${ROW_COSTS}) AS size FROM telemetry`)[0]?.size);
  if (size <= mostSize) return;
  sql.exec(
    `DELETE FROM telemetry WHERE rowid IN (
       SELECT rowid FROM (
         SELECT rowid, sum(size + ${ROW_COSTS}) OVER (ORDER BY at DESC, rowid DESC) AS newer FROM telemetry)
       WHERE newer > ?)`,
    mostSize,
  );
}

/** Returns when the row that was not written for the longest was written, or null if there is none. */
function longestUnwritten(sql: Sql): number | null {
  return sql.exec(`SELECT min(at) AS at FROM telemetry`)[0]?.at as number | null;
}
