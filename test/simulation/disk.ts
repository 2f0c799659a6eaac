import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { Row, Sql, SqlValue } from '../../src/queue/store/ports.ts';

/** What one statement did to one row of `jobs`. */
export interface JobChange {
  id: string;
  deleted: boolean;
  /** Null where the row was inserted. */
  before: JobColumns | null;
  after: JobColumns;
}

export interface JobColumns {
  state: string;
  fence_token: number;
  attempts: number;
  max_attempts: number;
  attempt_errors: string;
  worker_id: string | null;
  result: string | null;
  error: string | null;
  deadline_at: number | null;
}

const COLUMNS: readonly (keyof JobColumns)[] = [
  'state',
  'fence_token',
  'attempts',
  'max_attempts',
  'attempt_errors',
  'worker_id',
  'result',
  'error',
  'deadline_at',
];

/** A job that is given out in the command that submits it has one row written, of two steps. */
function steps(change: JobChange): JobChange[] {
  if (change.before !== null || change.deleted || change.after.fence_token === 0) return [change];
  const submitted = { ...change.after, state: 'pending', fence_token: 0, worker_id: null };
  return [
    { ...change, after: submitted },
    { ...change, before: submitted },
  ];
}

/** Real SQLite in memory. What was written since the last commit is gone when its process is. */
export class Disk implements Sql {
  readonly #database = new DatabaseSync(':memory:');
  readonly #statements = new Map<string, { statement: StatementSync; reads: boolean }>();
  readonly #changed: (change: JobChange) => void;
  #isOpen = false;

  /** @param changed hears of each change as it is made; it is undone if no commit follows */
  constructor(changed: (change: JobChange) => void) {
    this.#changed = changed;
  }

  /** Something waits to be committed. */
  get isDirty(): boolean {
    return this.#isOpen;
  }

  exec(query: string, ...bindings: SqlValue[]): Row[] {
    let known = this.#statements.get(query);
    if (!known?.reads) this.touch();
    if (!known) {
      known = { statement: this.#database.prepare(query), reads: /^\s*SELECT/i.test(query) };
      this.#statements.set(query, known);
    }
    return known.statement.all(...bindings) as unknown as Row[];
  }

  /** It is never full. */
  readonly undoable = (work: () => void): null => {
    work();
    return null;
  };

  /** Opens a transaction, if none is. */
  touch(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#database.exec('BEGIN');
  }

  /** Reports every change of a job's row from now on; once the tables exist. */
  watch(): void {
    const values = (side: string) => COLUMNS.map((column) => `${side}.${column}`).join(', ');
    this.#database.function('seen', { varargs: true }, (id, kind, ...values) => {
      const columns = (from: number) =>
        Object.fromEntries(COLUMNS.map((column, at) => [column, values[from + at]])) as unknown as JobColumns;
      const change = {
        id: id as string,
        deleted: kind === 'deleted',
        before: kind === 'inserted' ? null : columns(0),
        after: kind === 'updated' ? columns(COLUMNS.length) : columns(0),
      };
      for (const step of steps(change)) this.#changed(step);
      return null;
    });
    this.#database.exec(`
      CREATE TEMP TRIGGER inserted AFTER INSERT ON jobs BEGIN SELECT seen(NEW.id, 'inserted', ${values('NEW')}); END;
      CREATE TEMP TRIGGER updated AFTER UPDATE ON jobs BEGIN
        SELECT seen(NEW.id, 'updated', ${values('OLD')}, ${values('NEW')}); END;
      CREATE TEMP TRIGGER deleted AFTER DELETE ON jobs BEGIN SELECT seen(OLD.id, 'deleted', ${values('OLD')}); END;`);
  }

  /**
   * For looking only: a job of the same pool that was never dispatched, is ready and has a higher priority, or null. One
   * for another model needs other workers.
   */
  waitingBefore(jobId: string): string | null {
    const found = this.#database
      .prepare(
        `SELECT other.id FROM jobs AS job JOIN jobs AS other USING (config_id)
         WHERE job.id = ? AND other.state = 'pending' AND other.run_after IS NULL AND other.is_held = 0 AND other.priority >= 0
           AND other.id NOT LIKE 'batch_%'
           AND other.fence_token = 0
           AND (other.model IS NULL OR job.model IS NULL OR other.model = job.model)`,
      )
      .get(jobId);
    return found ? String(found.id) : null;
  }

  commit(): void {
    if (this.#isOpen) this.#database.exec('COMMIT');
    this.#isOpen = false;
  }

  rollback(): void {
    if (this.#isOpen) this.#database.exec('ROLLBACK');
    this.#isOpen = false;
  }

  close(): void {
    this.rollback();
    this.#database.close();
  }
}
