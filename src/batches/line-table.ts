import type { Row, Sql } from '../durable/ports.ts';

/** Every statement on the lines of batches. Nothing here decides. */

/** A line of a batch's input, and where its text stands there. */
export interface StoredLine {
  number: number;
  custom_id: string;
  offset: number;
  length: number;
}

/** @returns false: the batch has a line with this custom_id already */
export function insertLine(sql: Sql, batch: number, line: StoredLine & { prefix: number }): boolean {
  const rows = sql.exec(
    `INSERT OR IGNORE INTO lines (batch, number, custom_id, offset, length, prefix)
     VALUES (?, ?, ?, ?, ?, ?) RETURNING number`,
    batch,
    line.number,
    line.custom_id,
    line.offset,
    line.length,
    line.prefix,
  );
  return rows.length > 0;
}

/** The next lines to be submitted, those with the same beginning side by side. */
export function nextLines(sql: Sql, batch: number, most: number): StoredLine[] {
  return sql
    .exec(
      `SELECT * FROM lines WHERE batch = ? AND state = 0 ORDER BY prefix, number LIMIT ?`,
      batch,
      Math.max(0, most),
    )
    .map(lineOf);
}

export function submittedLines(sql: Sql, batch: number): StoredLine[] {
  return sql.exec(`SELECT * FROM lines WHERE batch = ? AND state = 1`, batch).map(lineOf);
}

export function countSubmitted(sql: Sql, batch: number): number {
  return Number(sql.exec(`SELECT count(*) AS n FROM lines WHERE batch = ? AND state = 1`, batch)[0]?.n);
}

export function hasOpenLines(sql: Sql, batch: number): boolean {
  return sql.exec(`SELECT 1 FROM lines WHERE batch = ? AND state < 2 LIMIT 1`, batch).length > 0;
}

/** @returns null: the batch has none of this number, or it is done */
export function findOpenLine(sql: Sql, batch: number, number: number): StoredLine | null {
  const [row] = sql.exec(`SELECT * FROM lines WHERE batch = ? AND number = ? AND state < 2`, batch, number);
  return row ? lineOf(row) : null;
}

export function setLineState(
  sql: Sql,
  batch: number,
  number: number,
  state: 'waiting' | 'submitted' | 'done',
): void {
  const value = { waiting: 0, submitted: 1, done: 2 }[state];
  sql.exec(`UPDATE lines SET state = ? WHERE batch = ? AND number = ?`, value, batch, number);
}

export function forgetLines(sql: Sql, batch: number): void {
  sql.exec(`DELETE FROM lines WHERE batch = ?`, batch);
}

function lineOf(row: Row): StoredLine {
  return {
    number: Number(row.number),
    custom_id: String(row.custom_id),
    offset: Number(row.offset),
    length: Number(row.length),
  };
}
