import type { Sql } from '../../durable/ports.ts';
import type { Subject } from '../rpc.ts';
import {
  addHour,
  CHUNK_MS,
  type Chunk,
  chunkStart,
  DAY_MS,
  DETAIL_MS,
  HOUR_MS,
  MINUTE_MS,
  newChunk,
  rolledUp,
} from './chunk.ts';

const DETAIL_KEPT_MS = HOUR_MS;
export const KEPT_MS = DAY_MS;
/** Chunks by hour are stored for 31 days, except those of workers, which come and go. */
const HOURS_KEPT_MS = 31 * DAY_MS;
/** The most chunks, and hours, that are rolled up at a time: nothing else happens meanwhile. */
const ROLLED_UP_AT_ONCE = 100;
/** The most chunks stored, twice what a day of 1,000 workers has: endless new names push out the oldest. */
const MOST_CHUNKS = 300_000;

interface OpenChunk {
  subject: Subject;
  chunk: Chunk;
  isSaved: boolean;
}

/**
 * The measurements of workers, pools, models and the fleet: an hour in full detail, a day by minute, and but for
 * workers a month by hour. The newest ten minutes of each subject are in memory and stored with the heartbeats; older
 * ones are rows, rolled up when they are an hour old, and again when they are a day old.
 */
export class History {
  readonly #sql: Sql;
  readonly #now: () => number;
  readonly #open = new Map<string, OpenChunk>();
  /** The chunks that ended since the last save. */
  #closed: OpenChunk[] = [];
  #boundedAt = 0;

  constructor(sql: Sql, now: () => number) {
    this.#sql = sql;
    this.#now = now;
  }

  /** Returns the chunk of a moment, to be changed. @param at epoch ms, later than in the call before */
  write(subject: Subject, at: number): Chunk {
    const open = this.#opened(subject, chunkStart(at));
    open.isSaved = false;
    return open.chunk;
  }

  /** Returns the chunks that hold anything since a time, oldest first, in the detail that there is. */
  since(subject: Subject, from: number): Chunk[] {
    const first = chunkStart(from);
    const unsaved = [...this.#closed, this.#open.get(keyOf(subject))]
      .filter((one) => one !== undefined)
      .filter((one) => keyOf(one.subject) === keyOf(subject) && one.chunk.start >= first)
      .map(({ chunk }) => chunk);
    const newer = new Set(unsaved.map(({ start }) => start));
    const stored = chunksBetween(this.#sql, subject, first, this.#now());
    return [...stored.filter(({ start }) => !newer.has(start)), ...unsaved];
  }

  /** Returns the days by hour that hold anything since a time, oldest first: those that `since` no longer returns. */
  days(subject: Subject, from: number): Chunk[] {
    return daysBetween(this.#sql, subject, from - (from % DAY_MS), this.#now());
  }

  /** Returns the last chunk that starts before the chunk of a time. */
  before(subject: Subject, from: number): Chunk | null {
    return chunkBefore(this.#sql, subject, chunkStart(from));
  }

  /** Stores what was written, rolls up and forgets what is too old. */
  save(): void {
    for (const open of [...this.#closed, ...this.#open.values()]) {
      if (!open.isSaved) saveChunk(this.#sql, open.subject, open.chunk);
      open.isSaved = true;
    }
    this.#closed = [];
    this.#rollUp();
  }

  /** Closes the open chunk of a subject to which nothing more is written. */
  close(subject: Subject): void {
    const open = this.#open.get(keyOf(subject));
    if (!open) return;
    this.#open.delete(keyOf(subject));
    if (!open.isSaved) this.#closed.push(open);
  }

  #opened(subject: Subject, start: number): OpenChunk {
    const open = this.#open.get(keyOf(subject));
    if (open?.chunk.start === start) return open;
    this.close(subject);
    // After a restart the beginning of the chunk is stored already.
    const [stored] = chunksBetween(this.#sql, subject, start, start);
    const opened = { subject, chunk: stored ?? newChunk(start), isSaved: true };
    this.#open.set(keyOf(subject), opened);
    return opened;
  }

  #rollUp(): void {
    const now = this.#now();
    const toMinutes = oldest(this.#sql, DETAIL_MS, now - DETAIL_KEPT_MS - CHUNK_MS, ROLLED_UP_AT_ONCE);
    for (const [subject, chunk] of toMinutes) {
      deleteChunk(this.#sql, subject, chunk);
      saveChunk(this.#sql, subject, rolledUp(chunk));
    }
    if (now - this.#boundedAt < CHUNK_MS) return;
    this.#boundedAt = now;
    forgetWorkers(this.#sql, now - KEPT_MS - CHUNK_MS);
    this.#rollUpHours(now);
    forgetChunks(this.#sql, HOUR_MS, now - HOURS_KEPT_MS - DAY_MS);
    boundChunks(this.#sql, MOST_CHUNKS);
    for (const { subject, chunk } of this.#open.values()) {
      if (chunk.start < chunkStart(now) - CHUNK_MS) this.close(subject);
    }
  }

  /** Rolls up whole hours that are older than a day. */
  #rollUpHours(now: number): void {
    const kept = now - KEPT_MS - CHUNK_MS;
    const before = kept - (kept % HOUR_MS);
    for (let hours = 0; hours < ROLLED_UP_AT_ONCE; hours++) {
      // The whole hour of the oldest chunk is taken: no chunk of that hour is older.
      const [found] = oldest(this.#sql, MINUTE_MS, before, 1);
      if (!found) return;
      const [subject, { start }] = found;
      const hour = start - (start % HOUR_MS);
      const chunks = chunksBetween(this.#sql, subject, hour, hour + HOUR_MS - 1);
      const dayStart = hour - (hour % DAY_MS);
      const day = daysBetween(this.#sql, subject, dayStart, dayStart)[0] ?? newChunk(dayStart, HOUR_MS);
      addHour(day, hour, chunks);
      saveChunk(this.#sql, subject, day);
      for (const chunk of chunks) deleteChunk(this.#sql, subject, chunk);
    }
  }
}

export function keyOf({ kind, id }: Subject): string {
  return `${kind} ${id}`;
}

/** The statements on history. A row holds ten minutes of a subject, or a day of it by hour. Times are epoch ms. */

function saveChunk(sql: Sql, { kind, id }: Subject, { start, step_ms, columns }: Chunk): void {
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

function deleteChunk(sql: Sql, { kind, id }: Subject, { start, step_ms }: Chunk): void {
  sql.exec(
    `DELETE FROM history WHERE kind = ? AND id = ? AND step_ms = ? AND start = ?`,
    kind,
    id,
    step_ms,
    start,
  );
}

/** Reads the chunks of ten minutes that start in this time, both ends included, oldest first. */
function chunksBetween(sql: Sql, subject: Subject, from: number, to: number): Chunk[] {
  return [MINUTE_MS, DETAIL_MS].flatMap((step_ms) => chunksOf(sql, subject, step_ms, from, to));
}

/** Reads the days by hour that start in this time, both ends included, oldest first. */
function daysBetween(sql: Sql, subject: Subject, from: number, to: number): Chunk[] {
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
function chunkBefore(sql: Sql, { kind, id }: Subject, before: number): Chunk | null {
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

/** Reads the oldest chunks of a step length that start before a time, at most `most` of them. */
function oldest(sql: Sql, step_ms: number, before: number, most: number): [Subject, Chunk][] {
  return sql
    .exec(
      `SELECT kind, id, start, step_ms, columns FROM history WHERE step_ms = ? AND start < ? ORDER BY start LIMIT ?`,
      step_ms,
      before,
      most,
    )
    .map((row) => [{ kind: row.kind as Subject['kind'], id: String(row.id) }, chunkOf(row)]);
}

function forgetChunks(sql: Sql, step_ms: number, before: number): void {
  sql.exec(`DELETE FROM history WHERE step_ms = ? AND start < ?`, step_ms, before);
}

/** Deletes the chunks of workers that start before a time. */
function forgetWorkers(sql: Sql, before: number): void {
  for (const step of [DETAIL_MS, MINUTE_MS])
    sql.exec(`DELETE FROM history WHERE step_ms = ? AND start < ? AND kind = 'worker'`, step, before);
}

/** Deletes the oldest chunks beyond this many. */
function boundChunks(sql: Sql, most: number): void {
  const count = Number(sql.exec(`SELECT count(*) AS count FROM history`)[0]?.count);
  if (count <= most) return;
  sql.exec(
    `DELETE FROM history WHERE (kind, id, step_ms, start) IN
       (SELECT kind, id, step_ms, start FROM history ORDER BY start, kind, id, step_ms LIMIT ?)`,
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
