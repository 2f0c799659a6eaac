import type { Sql } from '../../durable/ports.ts';
import type { Subject } from '../rpc.ts';
import { type Chunk, DETAIL_MS, MINUTE_MS } from './chunk.ts';

/** Every statement on history: a row for ten minutes of a worker or a pool. Nothing here decides. Times in epoch ms. */

export function saveChunk(sql: Sql, { kind, id }: Subject, { start, step_ms, columns }: Chunk): void {
  sql.exec(
    `INSERT INTO history (kind, id, start, step_ms, columns) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (kind, id, start) DO UPDATE SET step_ms = excluded.step_ms, columns = excluded.columns`,
    kind,
    id,
    start,
    step_ms,
    JSON.stringify(columns),
  );
}

/** Those that start in this time, both ends included, oldest first. */
export function chunksBetween(sql: Sql, { kind, id }: Subject, from: number, to: number): Chunk[] {
  return sql
    .exec(
      `SELECT start, step_ms, columns FROM history WHERE kind = ? AND id = ? AND start BETWEEN ? AND ? ORDER BY start`,
      kind,
      id,
      from,
      to,
    )
    .map(chunkOf);
}

/** The newest that starts before a time. */
export function chunkBefore(sql: Sql, { kind, id }: Subject, before: number): Chunk | null {
  const [row] = sql.exec(
    `SELECT start, step_ms, columns FROM history WHERE kind = ? AND id = ? AND start < ? ORDER BY start DESC LIMIT 1`,
    kind,
    id,
    before,
  );
  return row ? chunkOf(row) : null;
}

/** Chunks in full detail that start before a time, as many as are given. */
export function detailBefore(sql: Sql, before: number, most: number): [Subject, Chunk][] {
  return sql
    .exec(
      `SELECT kind, id, start, step_ms, columns FROM history WHERE step_ms = ${DETAIL_MS} AND start < ?
       ORDER BY start LIMIT ?`,
      before,
      most,
    )
    .map((row) => [{ kind: row.kind as Subject['kind'], id: String(row.id) }, chunkOf(row)]);
}

export function forgetChunks(sql: Sql, before: number): void {
  for (const step of [DETAIL_MS, MINUTE_MS])
    sql.exec(`DELETE FROM history WHERE step_ms = ? AND start < ?`, step, before);
}

/** Forgets the oldest beyond so many. */
export function boundChunks(sql: Sql, most: number): void {
  const count = Number(sql.exec(`SELECT count(*) AS count FROM history`)[0]?.count);
  if (count <= most) return;
  sql.exec(
    `DELETE FROM history WHERE (kind, id, start) IN (SELECT kind, id, start FROM history ORDER BY start LIMIT ?)`,
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
