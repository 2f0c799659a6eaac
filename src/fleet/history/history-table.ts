import type { Sql } from '../../durable/ports.ts';
import type { Subject } from '../rpc.ts';
import { type Chunk, DETAIL_MS, HOUR_MS, MINUTE_MS } from './chunk.ts';

/**
 * Every statement on history: a row for ten minutes of a subject, or a day of it by hour. Nothing here decides. Times
 * in epoch ms.
 */

export function saveChunk(sql: Sql, { kind, id }: Subject, { start, step_ms, columns }: Chunk): void {
  sql.exec(
    `INSERT INTO history (kind, id, step_ms, start, columns) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (kind, id, step_ms, start) DO UPDATE SET columns = excluded.columns`,
    kind,
    id,
    step_ms,
    start,
    JSON.stringify(columns),
  );
}

export function deleteChunk(sql: Sql, { kind, id }: Subject, { start, step_ms }: Chunk): void {
  sql.exec(
    `DELETE FROM history WHERE kind = ? AND id = ? AND step_ms = ? AND start = ?`,
    kind,
    id,
    step_ms,
    start,
  );
}

/** Reads the chunks of ten minutes that start in this time, both ends included, oldest first. */
export function chunksBetween(sql: Sql, subject: Subject, from: number, to: number): Chunk[] {
  return [MINUTE_MS, DETAIL_MS].flatMap((step_ms) => chunksOf(sql, subject, step_ms, from, to));
}

/** Reads the days by hour that start in this time, both ends included, oldest first. */
export function daysBetween(sql: Sql, subject: Subject, from: number, to: number): Chunk[] {
  return chunksOf(sql, subject, HOUR_MS, from, to);
}

function chunksOf(sql: Sql, { kind, id }: Subject, step_ms: number, from: number, to: number): Chunk[] {
  return sql
    .exec(
      `SELECT start, step_ms, columns FROM history
       WHERE kind = ? AND id = ? AND step_ms = ? AND start BETWEEN ? AND ? ORDER BY start`,
      kind,
      id,
      step_ms,
      from,
      to,
    )
    .map(chunkOf);
}

/** Reads the newest chunk of ten minutes, else of a day, that starts before a time. */
export function chunkBefore(sql: Sql, { kind, id }: Subject, before: number): Chunk | null {
  for (const step_ms of [DETAIL_MS, MINUTE_MS, HOUR_MS]) {
    const [row] = sql.exec(
      `SELECT start, step_ms, columns FROM history WHERE kind = ? AND id = ? AND step_ms = ? AND start < ?
       ORDER BY start DESC LIMIT 1`,
      kind,
      id,
      step_ms,
      before,
    );
    if (row) return chunkOf(row);
  }
  return null;
}

/** Reads the oldest chunks of a step length that start before a time. @param most how many at most */
export function oldest(sql: Sql, step_ms: number, before: number, most: number): [Subject, Chunk][] {
  return sql
    .exec(
      `SELECT kind, id, start, step_ms, columns FROM history WHERE step_ms = ? AND start < ? ORDER BY start LIMIT ?`,
      step_ms,
      before,
      most,
    )
    .map((row) => [{ kind: row.kind as Subject['kind'], id: String(row.id) }, chunkOf(row)]);
}

export function forgetChunks(sql: Sql, step_ms: number, before: number): void {
  sql.exec(`DELETE FROM history WHERE step_ms = ? AND start < ?`, step_ms, before);
}

/** Forgets the chunks of workers that start before a time. */
export function forgetWorkers(sql: Sql, before: number): void {
  for (const step of [DETAIL_MS, MINUTE_MS])
    sql.exec(`DELETE FROM history WHERE step_ms = ? AND start < ? AND kind = 'worker'`, step, before);
}

/** Forgets the oldest chunks beyond so many. */
export function boundChunks(sql: Sql, most: number): void {
  const count = Number(sql.exec(`SELECT count(*) AS count FROM history`)[0]?.count);
  if (count <= most) return;
  sql.exec(
    `DELETE FROM history WHERE (kind, id, step_ms, start) IN
       (SELECT kind, id, step_ms, start FROM history ORDER BY start LIMIT ?)`,
    count - most,
  );
}

function chunkOf(row: Record<string, unknown>): Chunk {
  return {
    start: Number(row.start),
    step_ms: Number(row.step_ms),
    columns: JSON.parse(String(row.columns)) as Chunk['columns'],
  };
}
