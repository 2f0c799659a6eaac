import type { Row, Sql } from '../durable/ports.ts';
import { type Batch, isOver } from './batch.ts';

/** The statements on batches. Nothing here decides. */

/** A batch with the number of its row, by which its lines are found. */
export interface StoredBatch {
  seq: number;
  batch: Batch;
}

export interface BatchesWanted {
  /** The last batch of the previous page; null: the first page is wanted. */
  after: string | null;
  limit: number;
  /** The tenant that asks, which sees its own batches alone; null sees all batches. */
  viewer: string | null;
}

export function insertBatch(sql: Sql, batch: Batch, idempotencyKey: string | null): void {
  sql.exec(
    `INSERT INTO batches (id, tenant, input_file_id, is_over, created_at, idempotency_key, batch)
     VALUES (?, ?, ?, 0, ?, ?, ?)`,
    batch.id,
    batch.tenant,
    batch.input_file_id,
    batch.created_at,
    idempotencyKey,
    JSON.stringify(batch),
  );
}

export function saveBatch(sql: Sql, { seq, batch }: StoredBatch): void {
  sql.exec(
    `UPDATE batches SET is_over = ?, batch = ? WHERE seq = ?`,
    isOver(batch.status) ? 1 : 0,
    JSON.stringify(batch),
    seq,
  );
}

/** Finds a batch that the viewer may see. @param viewer null sees all */
export function findBatch(sql: Sql, id: string, viewer: string | null): StoredBatch | null {
  const found = first(sql.exec(`SELECT seq, batch FROM batches WHERE id = ?`, id));
  return found !== null && (viewer === null || viewer === found.batch.tenant) ? found : null;
}

export function findByIdempotencyKey(sql: Sql, key: string): StoredBatch | null {
  return first(sql.exec(`SELECT seq, batch FROM batches WHERE idempotency_key = ?`, key));
}

/** Returns a page of batches, the newest first; null if `after` is no batch. */
export function listBatches(
  sql: Sql,
  { after, limit, viewer }: BatchesWanted,
): { batches: Batch[]; has_more: boolean } | null {
  const from = after === null ? null : findBatch(sql, after, viewer)?.seq;
  if (from === undefined) return null;
  const rows = sql.exec(
    `SELECT seq, batch FROM batches
     WHERE (?1 IS NULL OR seq < ?1) AND (?2 IS NULL OR tenant = ?2) ORDER BY seq DESC LIMIT ?3`,
    from,
    viewer,
    limit + 1,
  );
  return { batches: rows.slice(0, limit).map((row) => storedOf(row).batch), has_more: rows.length > limit };
}

/** Returns the batches that have not ended, the oldest first. */
export function activeBatches(sql: Sql): StoredBatch[] {
  return sql.exec(`SELECT seq, batch FROM batches WHERE is_over = 0 ORDER BY seq`).map(storedOf);
}

/** Says whether a batch that has not ended reads this file. */
export function isRead(sql: Sql, fileId: string): boolean {
  return sql.exec(`SELECT 1 FROM batches WHERE input_file_id = ? AND is_over = 0 LIMIT 1`, fileId).length > 0;
}

export function forgetBatches(sql: Sql, createdBefore: number): void {
  sql.exec(`DELETE FROM batches WHERE is_over = 1 AND created_at < ?`, createdBefore);
}

function first(rows: Row[]): StoredBatch | null {
  return rows[0] ? storedOf(rows[0]) : null;
}

function storedOf(row: Row): StoredBatch {
  return { seq: Number(row.seq), batch: JSON.parse(String(row.batch)) as Batch };
}
