import type { JobState } from '../../protocol/index.ts';
import type { StoredJob } from '../job.ts';
import { writeExtras } from './jobs-table.ts';
import type { Sql, SqlValue } from './ports.ts';
import { row } from './ports.ts';

/* Rows of jobs that are written for the first time. */

/** Returns the highest `seq` that any row ever had. */
export function lastSeq(sql: Sql): number {
  return row<{ seq: number }>(sql, `SELECT seq FROM sqlite_sequence WHERE name = 'jobs'`)?.seq ?? 0;
}

/** The columns that a job brings along, beside its payload. */
const BROUGHT = [
  'seq',
  'id',
  'job_type',
  'config_id',
  'priority',
  'max_attempts',
  'created_at',
  'deadline_at',
  'tenant',
  'token_name',
  'stream',
  'model',
  'payload_file',
  'is_held',
] as const satisfies (keyof StoredJob)[];

/** A job as it is submitted. `payload` is null if `payload_file` holds it. */
export type NewJobRow = Omit<Pick<StoredJob, (typeof BROUGHT)[number] | 'extras'>, 'seq'> & {
  payload: string | null;
};

/** The columns that a first lease adds, beside the key to its files. */
const LEASE = [
  'fence_token',
  'worker_id',
  'leased_at',
  'lease_expires_at',
] as const satisfies (keyof StoredJob)[];

/** The columns that are made of the payload and of what features keep. */
const MADE = ['payload', 'extras', 'is_limited'];

const INSERT = insertion([...BROUGHT, ...MADE], 'pending');
const INSERT_LEASED = insertion([...BROUGHT, ...MADE, ...LEASE, 'file_key'], 'leased');

function insertion(columns: readonly string[], state: JobState): string {
  return `INSERT INTO jobs (${columns.join()}, state) VALUES (${columns.map(() => '?').join()}, '${state}')`;
}

/**
 * Inserts the row of a job that is pending or was leased once.
 * @param payload as it lies in the row
 * @param fileKey the key to the files of its attempt, if it is leased
 */
export function insertJob(sql: Sql, job: StoredJob, payload: string | null, fileKey: string | null): void {
  const values: SqlValue[] = BROUGHT.map((column) => job[column]);
  values.push(payload, writeExtras(job.extras), job.extras.cost === undefined ? 0 : 1);
  if (job.state === 'pending') sql.exec(INSERT, ...values);
  else sql.exec(INSERT_LEASED, ...values, ...LEASE.map((column) => job[column]), fileKey);
}

/** Returns the row as it is once it is written: reading it back would cost more than writing it. */
export function newJob({ payload: _, ...given }: NewJobRow, seq: number): StoredJob {
  return { ...NEW, ...given, seq };
}

/** Columns of a job that no worker was ever given: the defaults of the table. */
const NEW = {
  mode: 'stored',
  state: 'pending',
  attempts: 0,
  attempt_errors: '[]',
  fence_token: 0,
  worker_id: null,
  leased_at: null,
  lease_expires_at: null,
  error: null,
  progress: null,
  status_message: null,
  started_at: null,
  first_token_at: null,
  settled_at: null,
  run_after: null,
  lease_orphaned: 0,
  result_file: null,
} as const;
