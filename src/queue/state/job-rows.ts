import type { Placed } from '../../admission/backlog.ts';
import type { Lease, StoredJob } from '../job.ts';
import { findJob } from '../store/jobs-table.ts';
import { leaseJob } from '../store/leases-table.ts';
import { insertJob, lastSeq, type NewJobRow, newJob } from '../store/new-jobs.ts';
import { nextReadyId } from '../store/pending-table.ts';
import type { Sql } from '../store/ports.ts';

/** The most rows kept in memory; older ones are read from the table again. */
const MOST_ROWS = 1000;
/** The most characters of a text kept in memory; a longer text is read from its row when it is sent. */
const MOST_CHARACTERS = 4096;

const NO_ERRORS = '[]';

interface Kept {
  job: StoredJob;
  /** The row's payload before a lease, its result after success; null if it must be read from the row. */
  text: string | null;
  /** The key to the files of the attempt that a new row was leased for; null without one. */
  fileKey: string | null;
  /** Whether the row is in the table already. */
  isWritten: boolean;
}

/**
 * The rows of stored jobs. Rows that this object wrote a moment ago stay in memory from insertion over lease to
 * success, the way that nearly all jobs go, since reading a row back takes longer than writing it. Any other change is
 * made in the table and makes this object forget the row.
 *
 * Most new jobs are given out by the command that stores them. So their rows are written once, when that command ends,
 * instead of being written, found and written again. `sql` writes them sooner for whatever uses the table before that.
 */
export class JobRows {
  readonly #tables: Sql;
  readonly #kept = new Map<string, Kept>();
  readonly #unwritten = new Set<Kept>();
  /** The `seq` of the newest row; null until this object inserts its first row. */
  #lastSeq: number | null = null;

  constructor(tables: Sql) {
    this.#tables = tables;
  }

  /** Runs statements on the tables, after writing the new rows into them. */
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
    return job;
  }

  /** Writes the new rows. */
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
   * Returns the tenant's oldest ready job, without those in `except` and those that name one of these models.
   * @param ready how many ready jobs the tenant has, new ones included
   */
  nextReady(
    place: Placed,
    ready: number,
    except: ReadonlySet<string>,
    models: ReadonlySet<string>,
  ): StoredJob | null {
    // New rows are younger than those in the table, so beside a backlog there is no need to look through them.
    const fresh = ready > this.#unwritten.size ? null : this.#newReady(place);
    const id =
      fresh === null || ready > fresh.length ? nextReadyId(this.#tables, place, except, models) : null;
    if (id !== null) return this.find(id);
    const isLeft = ({ id, model }: StoredJob) => except.has(id) || (model !== null && models.has(model));
    return (fresh ?? this.#newReady(place)).find((job) => !isLeft(job)) ?? null;
  }

  /** Writes a lease. @param job the job as it is with the lease */
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

  /**
   * Notes that a job has succeeded, in the table already.
   * @param result the row's result
   */
  settled(job: StoredJob, result: string | null): void {
    if (this.#kept.has(job.id)) this.#put(job, result);
  }

  /**
   * Takes the payload of a job to be sent, or the result of one to be reported, once.
   * @returns null if only the row has it
   */
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

  /** Returns a tenant's ready jobs that are not in the table yet, oldest first. */
  #newReady(place: Placed): StoredJob[] {
    const jobs = [...this.#unwritten].map(({ job }) => job);
    return jobs.filter((job) => job.state === 'pending' && isAt(job, place) && job.is_held === 0);
  }

  #put(job: StoredJob, text: string | null): void {
    // A failed attempt may leave long messages in its row; few jobs have any, so such rows are not kept.
    if (job.attempt_errors !== NO_ERRORS) return this.forget(job.id);
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
