import { OPTIMISATIONS } from '../../protocol/index.ts';
import type { Placed } from '../sharing/backlog.ts';
import { findJob, type StoredJob } from '../store/jobs-table.ts';
import { leaseJob } from '../store/leases-table.ts';
import { isHeld } from '../store/limits-table.ts';
import { insertJob, lastSeq, type NewJobRow, newJob } from '../store/new-jobs.ts';
import { nextReadyId } from '../store/pending-table.ts';
import type { Sql } from '../store/ports.ts';
import type { Lease } from './job.ts';

/** The oldest beyond so many are read from the table again. */
const MOST_ROWS = 1000;
/** A longer text is read from its row when it is sent. */
const MOST_CHARACTERS = 4096;

const NO_ERRORS = '[]';

interface Kept {
  job: StoredJob;
  /** The payload before a lease, the result after success, as it lies in the row; null: it is not known. */
  text: string | null;
  /** The key to the files of the attempt that a new row was leased for. */
  fileKey: string | null;
  /** False: the row is new, and not in the table yet. */
  isWritten: boolean;
}

/**
 * The rows of stored jobs. Those that this object wrote a moment ago are kept, since reading one back takes longer than
 * writing it: from the insertion over the lease to success, the way that nearly all jobs go. Any other change of a row
 * is made in the table, and has the row forgotten here.
 *
 * Most new jobs are given out by the command that stores them. So their rows are written when it ends, once, instead of
 * being written, found and written again. `sql` writes them sooner for whatever uses the table before that.
 */
export class JobRows {
  readonly #tables: Sql;
  readonly #kept = new Map<string, Kept>();
  readonly #unwritten = new Set<Kept>();
  /** Null: no row was inserted yet in this life of the object. */
  #lastSeq: number | null = null;

  constructor(tables: Sql) {
    this.#tables = tables;
  }

  /** The tables with the new rows in them. */
  readonly sql: Sql = {
    exec: (query, ...bindings) => {
      if (this.#unwritten.size > 0) this.flush();
      return this.#tables.exec(query, ...bindings);
    },
  };

  /** Adds a row, which `flush` writes. */
  insert(given: NewJobRow): StoredJob {
    this.#lastSeq = (this.#lastSeq ?? lastSeq(this.#tables)) + 1;
    const job = newJob(given, this.#lastSeq);
    const kept = { job, text: given.payload, fileKey: null, isWritten: false };
    this.#unwritten.add(kept);
    this.#keep(kept);
    if (!OPTIMISATIONS.keepRows) this.forget(job.id);
    return job;
  }

  /** Writes what is new. */
  flush(): void {
    for (const kept of this.#unwritten) {
      insertJob(this.#tables, kept.job, kept.text, kept.fileKey);
      kept.isWritten = true;
      kept.text = shortOrNull(kept.text);
    }
    this.#unwritten.clear();
  }

  find(id: string): StoredJob | null {
    return this.#kept.get(id)?.job ?? findJob(this.#tables, id);
  }

  /**
   * Returns the oldest ready job of a tenant, without those in `except` and those that name one of these models.
   * @param ready how many it has, new ones included
   */
  nextReady(
    place: Placed,
    ready: number,
    except: ReadonlySet<string>,
    models: ReadonlySet<string>,
  ): StoredJob | null {
    // New ones are younger, and beside a backlog the oldest is in the table: no need to look through them.
    const fresh = ready > this.#unwritten.size ? null : this.#newReady(place);
    const id =
      fresh === null || ready > fresh.length ? nextReadyId(this.#tables, place, except, models) : null;
    if (id !== null) return this.find(id);
    const isLeft = ({ id, model }: StoredJob) => except.has(id) || (model !== null && models.has(model));
    return (fresh ?? this.#newReady(place)).find((job) => !isLeft(job)) ?? null;
  }

  /** Writes a lease. @param job as it is with it */
  lease(job: StoredJob, lease: Lease): void {
    const kept = this.#kept.get(job.id);
    if (kept?.isWritten === false) {
      kept.job = job;
      kept.fileKey = lease.file_key;
    } else {
      leaseJob(this.sql, job.id, lease);
      this.#put(job, kept?.text ?? null);
    }
  }

  /** A job has succeeded, in the table already. @param result as it lies in the row, where it is read soon */
  settled(job: StoredJob, result: string | null): void {
    if (this.#kept.has(job.id)) this.#put(job, result);
  }

  /** The payload of a job that is sent now, or the result of one that is told: once. @returns null: read the row */
  takeText(id: string): string | null {
    const kept = this.#kept.get(id);
    if (!kept) return null;
    const { text } = kept;
    if (kept.isWritten) kept.text = null;
    return text;
  }

  forget(id: string): void {
    if (this.#kept.get(id)?.isWritten === false) this.flush();
    this.#kept.delete(id);
  }

  forgetAll(): void {
    this.flush();
    this.#kept.clear();
  }

  /** Those of a tenant that are not in the table, the oldest first. */
  #newReady(place: Placed): StoredJob[] {
    const jobs = [...this.#unwritten].map(({ job }) => job);
    return jobs.filter((job) => job.state === 'pending' && isAt(job, place) && !isHeld(job));
  }

  #put(job: StoredJob, text: string | null): void {
    // An attempt that failed may have left long messages in its row; few jobs have one.
    if (job.attempt_errors !== NO_ERRORS || !OPTIMISATIONS.keepRows) return this.forget(job.id);
    this.#keep({ job, text: shortOrNull(text), fileKey: null, isWritten: true });
  }

  #keep(kept: Kept): void {
    this.#kept.set(kept.job.id, kept);
    if (this.#kept.size <= MOST_ROWS) return;
    const [oldest] = this.#kept.keys();
    this.forget(oldest!);
  }
}

function isAt(job: StoredJob, { config_id, priority, tenant }: Placed): boolean {
  return job.config_id === config_id && job.priority === priority && job.tenant === tenant;
}

function shortOrNull(text: string | null): string | null {
  return text !== null && text.length <= MOST_CHARACTERS ? text : null;
}
