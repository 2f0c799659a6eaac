import type { Row, Sql } from '../durable/ports.ts';
import { FILE_INDEX_TABLES } from '../files/file-index.ts';
import { type Batch, isOver } from './batch.ts';

/** The tables of batches and their lines, and every statement on them. Nothing here decides. */

export const BATCHES_TABLES: readonly string[] = [
  ...FILE_INDEX_TABLES,
  // batch: the whole Batch as JSON; the other columns are those by which rows are found.
  `CREATE TABLE batches (
     seq INTEGER PRIMARY KEY,
     id TEXT NOT NULL UNIQUE,
     tenant TEXT,
     input_file_id TEXT NOT NULL,
     is_over INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     idempotency_key TEXT UNIQUE,
     batch TEXT NOT NULL
   )`,
  `CREATE INDEX batches_active ON batches (seq) WHERE is_over = 0`,
  `CREATE INDEX batches_input ON batches (input_file_id) WHERE is_over = 0`,
  // state: 0 waits to be submitted, 1 submitted, 2 done. The rows are deleted at the end of their batch.
  `CREATE TABLE lines (
     batch INTEGER NOT NULL,
     number INTEGER NOT NULL,
     custom_id TEXT NOT NULL,
     offset INTEGER NOT NULL,
     length INTEGER NOT NULL,
     prefix INTEGER NOT NULL,
     state INTEGER NOT NULL DEFAULT 0,
     model TEXT NOT NULL DEFAULT '',
     PRIMARY KEY (batch, number)
   ) WITHOUT ROWID`,
  `CREATE UNIQUE INDEX lines_custom_id ON lines (batch, custom_id)`,
  `CREATE INDEX lines_open ON lines (batch, state, model, prefix, number) WHERE state < 2`,
  // The numbers of lines of a model that wait to be submitted, and that are submitted; stored because they are read
  // often.
  `CREATE TABLE line_counts (
     batch INTEGER NOT NULL,
     model TEXT NOT NULL,
     waiting INTEGER NOT NULL,
     submitted INTEGER NOT NULL,
     PRIMARY KEY (batch, model)
   ) WITHOUT ROWID`,
];

/** A batch with the number of its row, by which its lines are found. */
export interface StoredBatch {
  seq: number;
  batch: Batch;
}

export interface BatchesWanted {
  /** The last batch of the previous page; null: the first page is requested. */
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

/** Returns whether a batch that has not ended reads this file. */
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

/** A line of a batch's input, and the position of its text there. */
export interface StoredLine {
  number: number;
  custom_id: string;
  /** The model that the line names; empty: it names none. */
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

/** Returns the next lines of a model to be submitted; lines whose prompts begin alike are side by side. */
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

/** Finds a line that is not done. @returns null if the batch has no such line of this number */
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
