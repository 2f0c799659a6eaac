import type { Row, Sql } from '../durable/ports.ts';

/** The statements on the lines of batches, and on how many there are of each kind. Nothing here decides. */

/** A line of a batch's input, and where its text stands there. */
export interface StoredLine {
  number: number;
  custom_id: string;
  /** The model that the line names; empty: none. */
  model: string;
  offset: number;
  length: number;
}

/** The numbers of a batch's lines that ask for one model and are not done. */
export interface LineCounts {
  /** The number of the batch's row. */
  batch: number;
  model: string;
  waiting: number;
  /** The lines that are in the queue. */
  submitted: number;
}

/** A line is `waiting` to be submitted, `submitted` to the queue, or `done`. */
type LineState = 'waiting' | 'submitted' | 'done';
const STATES: Record<LineState, number> = { waiting: 0, submitted: 1, done: 2 };

/** Stores a line, which `countNew` counts. @returns false if the batch already has a line with this custom_id */
export function insertLine(sql: Sql, batch: number, line: StoredLine & { prefix: number }): boolean {
  const rows = sql.exec(
    `INSERT OR IGNORE INTO lines (batch, number, custom_id, model, offset, length, prefix)
     VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number`,
    batch,
    line.number,
    line.custom_id,
    line.model,
    line.offset,
    line.length,
    line.prefix,
  );
  return rows.length > 0;
}

/** Counts lines that were inserted. @param models the model of each line */
export function countNew(sql: Sql, batch: number, models: readonly string[]): void {
  for (const [model, lines] of Map.groupBy(models, (model) => model)) {
    changeCounts(sql, batch, model, lines.length, 0);
  }
}

/** Returns the next lines of a model to be submitted, those with the same beginning side by side. */
export function nextLines(sql: Sql, batch: number, model: string, most: number): StoredLine[] {
  return sql
    .exec(
      `SELECT * FROM lines WHERE batch = ? AND state = 0 AND model = ? ORDER BY prefix, number LIMIT ?`,
      batch,
      model,
      most,
    )
    .map(lineOf);
}

/** Returns lines of any model that wait to be submitted. */
export function waitingLines(sql: Sql, batch: number, most: number): StoredLine[] {
  return sql.exec(`SELECT * FROM lines WHERE batch = ? AND state = 0 LIMIT ?`, batch, most).map(lineOf);
}

/** Returns the first lines of a batch, whatever their state. */
export function firstLines(sql: Sql, batch: number, most: number): StoredLine[] {
  return sql.exec(`SELECT * FROM lines WHERE batch = ? ORDER BY number LIMIT ?`, batch, most).map(lineOf);
}

export function submittedLines(sql: Sql, batch: number, most = -1): StoredLine[] {
  return sql.exec(`SELECT * FROM lines WHERE batch = ? AND state = 1 LIMIT ?`, batch, most).map(lineOf);
}

/** Returns the counts of all batches, or of one. */
export function lineCounts(sql: Sql, batch: number | null = null): LineCounts[] {
  return sql
    .exec(`SELECT * FROM line_counts WHERE ?1 IS NULL OR batch = ?1 ORDER BY batch, model`, batch)
    .map((row) => ({
      batch: Number(row.batch),
      model: String(row.model),
      waiting: Number(row.waiting),
      submitted: Number(row.submitted),
    }));
}

export function hasOpenLines(sql: Sql, batch: number): boolean {
  return sql.exec(`SELECT 1 FROM line_counts WHERE batch = ? LIMIT 1`, batch).length > 0;
}

/** Finds a line that is not done. @returns null if the batch has none of this number */
export function findOpenLine(sql: Sql, batch: number, number: number): StoredLine | null {
  const [row] = sql.exec(`SELECT * FROM lines WHERE batch = ? AND number = ? AND state < 2`, batch, number);
  return row ? lineOf(row) : null;
}

/**
 * Moves lines to another state; lines that are done, or in that state already, stay as they are.
 * @returns those that were moved
 */
export function moveLines(
  sql: Sql,
  batch: number,
  lines: readonly StoredLine[],
  to: LineState,
): StoredLine[] {
  const changes = new Map<string, { waiting: number; submitted: number }>();
  const moved = lines.filter(({ number, model }) => {
    const from = openState(sql, batch, number);
    if (from === null || from === to) return false;
    sql.exec(`UPDATE lines SET state = ? WHERE batch = ? AND number = ?`, STATES[to], batch, number);
    const change = changes.get(model) ?? { waiting: 0, submitted: 0 };
    change[from] -= 1;
    if (to !== 'done') change[to] += 1;
    changes.set(model, change);
    return true;
  });
  for (const [model, { waiting, submitted }] of changes) {
    changeCounts(sql, batch, model, waiting, submitted);
  }
  if (to === 'done') sql.exec(`DELETE FROM line_counts WHERE batch = ? AND waiting + submitted = 0`, batch);
  return moved;
}

/** Returns the state of a line that is not done, or null. */
function openState(sql: Sql, batch: number, number: number): 'waiting' | 'submitted' | null {
  const [row] = sql.exec(`SELECT state FROM lines WHERE batch = ? AND number = ?`, batch, number);
  return (['waiting', 'submitted'] as const).find((state) => STATES[state] === row?.state) ?? null;
}

export function forgetLines(sql: Sql, batch: number): void {
  sql.exec(`DELETE FROM lines WHERE batch = ?`, batch);
  sql.exec(`DELETE FROM line_counts WHERE batch = ?`, batch);
}

function changeCounts(sql: Sql, batch: number, model: string, waiting: number, submitted: number): void {
  sql.exec(
    `INSERT INTO line_counts (batch, model, waiting, submitted) VALUES (?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET waiting = waiting + excluded.waiting, submitted = submitted + excluded.submitted`,
    batch,
    model,
    waiting,
    submitted,
  );
}

function lineOf(row: Row): StoredLine {
  return {
    number: Number(row.number),
    custom_id: String(row.custom_id),
    model: String(row.model),
    offset: Number(row.offset),
    length: Number(row.length),
  };
}
