import type { Sql } from '../durable/ports.ts';
import type { TelemetryKind } from './rpc.ts';

/** Every statement on log lines and samples. Nothing here decides. All times in epoch ms. */

/** Items of one worker that came after each other, as they are stored. */
export interface StoredItems {
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
export function itemsBetween(sql: Sql, of: Source, after: number, before: number): StoredItems[] {
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
export function newestItems(sql: Sql, of: Source): StoredItems | null {
  const [row] = sql.exec(
    `SELECT first, count, size, items FROM telemetry WHERE worker_id = ? AND kind = ?
     ORDER BY first DESC LIMIT 1`,
    of.worker_id,
    of.kind,
  );
  return (row as unknown as StoredItems | undefined) ?? null;
}

/** Stores a row, and replaces one that has the same first number. */
export function saveItems(
  sql: Sql,
  of: Source,
  { first, count, size, items }: StoredItems,
  at: number,
): void {
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

/** Forgets rows of one worker that are wholly beyond so many items, or so many units, counted from the newest. */
export function forgetItemsOf(sql: Sql, of: Source, mostItems: number, mostSize: number): void {
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

/** What a row costs beside its items: names and numbers, indexes included. */
const ROW_COSTS = 1000;

/** Forgets rows that were last written by then, and the oldest rows of all workers together beyond so many units. */
export function forgetItems(sql: Sql, writtenBy: number, mostSize: number): void {
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
export function longestUnwritten(sql: Sql): number | null {
  return sql.exec(`SELECT min(at) AS at FROM telemetry`)[0]?.at as number | null;
}
