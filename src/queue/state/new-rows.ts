import {
  insertJob,
  insertNewRow,
  type NewJobRow,
  type NewRow,
  newJob,
  type StoredJob,
} from '../store/jobs-table.ts';
import type { Sql } from '../store/ports.ts';
import { storeText } from '../store/row-text.ts';

/**
 * Jobs that the verb at work has stored. Most are given out before it ends: so their rows are written then, once, instead
 * of being written, looked for and written again. Whatever uses the tables sooner finds them written (`sql`).
 */
export class NewRows {
  readonly #tables: Sql;
  readonly #rows = new Map<string, NewRow>();
  /** Null: no row was written yet in this life of the object. */
  #nextSeq: number | null = null;

  constructor(tables: Sql) {
    this.#tables = tables;
  }

  /** The tables with these rows in them. */
  readonly sql: Sql = {
    exec: (query, ...bindings) => {
      if (this.#rows.size > 0) this.write();
      return this.#tables.exec(query, ...bindings);
    },
  };

  /** @returns the job, and its payload as it lies in the row */
  add(given: NewJobRow): { job: StoredJob; payload: string | null } {
    if (this.#nextSeq === null) {
      const inserted = insertJob(this.#tables, given);
      this.#nextSeq = inserted.job.seq + 1;
      return inserted;
    }
    const payload =
      given.payload === null ? null : storeText(this.#tables, given.id, 'payload', given.payload);
    const job = newJob(given, this.#nextSeq);
    this.#nextSeq += 1;
    this.#rows.set(job.id, { job, payload, file_key: null });
    return { job, payload };
  }

  find(id: string): NewRow | null {
    return this.#rows.get(id) ?? null;
  }

  /** Those of a config that wait: how many, and the one to run first, those in `except` left out. */
  waiting(configId: string, except: ReadonlySet<string>): { count: number; first: StoredJob | null } {
    let count = 0;
    let first: StoredJob | null = null;
    for (const { job } of this.#rows.values()) {
      if (job.state !== 'pending' || job.config_id !== configId) continue;
      count += 1;
      if (!except.has(job.id) && (first === null || job.priority > first.priority)) first = job;
    }
    return { count, first };
  }

  /** A job was leased. @returns false: its row is written already */
  lease(job: StoredJob, fileKey: string | null): boolean {
    const row = this.#rows.get(job.id);
    if (row === undefined) return false;
    row.job = job;
    row.file_key = fileKey;
    return true;
  }

  /** Writes them all. */
  write(): void {
    for (const row of this.#rows.values()) insertNewRow(this.#tables, row);
    this.#rows.clear();
  }
}
