import type { Sql } from '../../durable/ports.ts';
import type { Subject } from '../rpc.ts';
import { CHUNK_MS, type Chunk, chunkStart, newChunk, rolledUp } from './chunk.ts';
import {
  boundChunks,
  chunkBefore,
  chunksBetween,
  detailBefore,
  forgetChunks,
  saveChunk,
} from './history-table.ts';

export const DETAIL_KEPT_MS = 3_600_000;
export const KEPT_MS = 24 * 3_600_000;
/** Rolled up at a time: nothing else happens meanwhile. */
const ROLLED_UP_AT_ONCE = 100;
/** Twice what a day of 1,000 workers has: names without end push out the oldest. */
const MOST_CHUNKS = 300_000;

interface OpenChunk {
  subject: Subject;
  chunk: Chunk;
  isSaved: boolean;
}

/**
 * What workers and pools measured: an hour in full detail, a day by minute. The newest ten minutes of each are in
 * memory and stored with the heartbeats; older ones are rows, rolled up in place when they are an hour old.
 */
export class History {
  readonly #sql: Sql;
  readonly #now: () => number;
  readonly #open = new Map<string, OpenChunk>();
  /** Ended since the last save. */
  #closed: OpenChunk[] = [];
  #boundedAt = 0;

  constructor(sql: Sql, now: () => number) {
    this.#sql = sql;
    this.#now = now;
  }

  /** The chunk of a moment, to be changed. @param at epoch ms, later than in the call before */
  write(subject: Subject, at: number): Chunk {
    const open = this.#opened(subject, chunkStart(at));
    open.isSaved = false;
    return open.chunk;
  }

  /** Chunks that hold anything since a time, oldest first, in the detail that there is. */
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

  /** The last one before these. */
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

  /** It is no longer written to. */
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
    // After a restart its beginning is stored.
    const [stored] = chunksBetween(this.#sql, subject, start, start);
    const opened = { subject, chunk: stored ?? newChunk(start), isSaved: true };
    this.#open.set(keyOf(subject), opened);
    return opened;
  }

  #rollUp(): void {
    const now = this.#now();
    for (const [subject, chunk] of detailBefore(
      this.#sql,
      now - DETAIL_KEPT_MS - CHUNK_MS,
      ROLLED_UP_AT_ONCE,
    )) {
      saveChunk(this.#sql, subject, rolledUp(chunk));
    }
    if (now - this.#boundedAt < CHUNK_MS) return;
    this.#boundedAt = now;
    forgetChunks(this.#sql, now - KEPT_MS - CHUNK_MS);
    boundChunks(this.#sql, MOST_CHUNKS);
    for (const { subject, chunk } of this.#open.values()) {
      if (chunk.start < chunkStart(now) - CHUNK_MS) this.close(subject);
    }
  }
}

function keyOf({ kind, id }: Subject): string {
  return `${kind} ${id}`;
}
