import { type Failure, type JobState, writeJson } from '../../protocol/index.ts';
import type { StoredJob } from '../job.ts';
import type { JobExtras, OutputCursor } from '../rpc.ts';
import { row, rows, type Sql, type SqlValue } from './ports.ts';

/**
 * Statements on the table of jobs; new rows are in new-jobs.ts, leases in leases-table.ts, pending jobs in
 * pending-table.ts. Nothing here decides; the caller has decided. Statements that end or release an attempt name the
 * fence token in their WHERE, so that a late caller changes nothing even if its check was wrong.
 */

/**
 * The columns of a job, without payload and result: they can be megabytes, so they are read only where they are used.
 */
export const COLUMNS = `'stored' AS mode, seq, id, job_type, config_id, state, priority, attempts, max_attempts, fence_token, worker_id,
  attempt_errors, error, progress, status_message, created_at, leased_at, started_at, first_token_at, settled_at,
  run_after, is_held, deadline_at, lease_expires_at, lease_orphaned, tenant, token_name, stream, model, payload_file, result_file, extras`;

// Built once: a text that is built anew for each call is looked up by all of its characters.
const FIND = `SELECT ${COLUMNS} FROM jobs WHERE id = ?`;

export function findJob(sql: Sql, id: string): StoredJob | null {
  return jobs(sql, FIND, id)[0] ?? null;
}

/** Returns the jobs of a statement that selects COLUMNS. */
export function jobs(sql: Sql, query: string, ...bindings: SqlValue[]): StoredJob[] {
  const found = rows<Omit<StoredJob, 'extras'> & { extras: unknown }>(sql, query, ...bindings);
  for (const job of found) job.extras = readExtras(job.extras as string | null);
  return found as StoredJob[];
}

const NO_EXTRAS: JobExtras = {};

/** Writes the column `extras`, which is null if there are none. */
export function writeExtras(extras: JobExtras): string | null {
  const text = JSON.stringify(extras);
  return text === '{}' ? null : text;
}

/** Reads the column `extras`. */
export function readExtras(text: string | null): JobExtras {
  return text === null ? NO_EXTRAS : (JSON.parse(text) as JobExtras);
}

export function setProgress(
  sql: Sql,
  id: string,
  fenceToken: number,
  progress: number | null,
  text: string | null,
): void {
  sql.exec(
    `UPDATE jobs SET progress = COALESCE(?, progress), status_message = COALESCE(?, status_message)
     WHERE id = ? AND fence_token = ? AND state = 'leased'`,
    progress,
    text,
    id,
    fenceToken,
  );
}

/**
 * Makes a job pending again, with what the attempt cost it, and with what the next one goes on from if that is given.
 */
export function releaseJob(
  sql: Sql,
  { id, fence_token }: StoredJob,
  change: { attempts: number; attempt_errors: string; run_after: number | null; kept: string | null },
): void {
  sql.exec(
    `UPDATE jobs SET state = 'pending', lease_expires_at = NULL, lease_orphaned = 0,
       attempts = ?, attempt_errors = ?, run_after = ?, is_held = 0, partial = COALESCE(?, partial)
     WHERE id = ? AND fence_token = ? AND settled_at IS NULL`,
    change.attempts,
    change.attempt_errors,
    change.run_after,
    change.kept,
    id,
    fence_token,
  );
}

/**
 * Settles a job. Its result is null where there is none, or where it lies in a file.
 * @param now epoch ms
 * @param settlement the job's number among the settlements
 * @returns the result as it lies in the row
 */
export function endJob(
  sql: Sql,
  job: StoredJob,
  ending: {
    state: JobState;
    worker_id: string | null;
    attempts: number;
    attempt_errors: string;
    result: Record<string, unknown> | null;
    result_file: string | null;
    error: Failure | null;
  },
  now: number,
  settlement: number,
): string | null {
  const { result, error } = ending;
  const text = result === null ? null : writeJson(result);
  sql.exec(
    `UPDATE jobs SET state = ?, settled_at = ?, settlement = ?, worker_id = ?, attempts = ?, attempt_errors = ?, result = ?, result_file = ?, error = ?,
       started_at = ?, first_token_at = ?, lease_expires_at = NULL, run_after = NULL, is_held = 0, partial = NULL
     WHERE id = ? AND fence_token = ? AND settled_at IS NULL`,
    ending.state,
    now,
    settlement,
    ending.worker_id,
    ending.attempts,
    ending.attempt_errors,
    text,
    ending.result_file,
    error === null ? null : JSON.stringify(error),
    job.started_at,
    job.first_token_at,
    job.id,
    job.fence_token,
  );
  return text;
}

/** Makes a settled job pending, as if it had only been submitted; its time of submission stays. */
export function retryJob(
  sql: Sql,
  id: string,
  { deadline_at, is_held }: Pick<StoredJob, 'deadline_at' | 'is_held'>,
): StoredJob {
  return jobs(
    sql,
    `UPDATE jobs SET state = 'pending', attempts = 0, attempt_errors = '[]', error = NULL, worker_id = NULL,
       progress = NULL, status_message = NULL, leased_at = NULL, started_at = NULL, first_token_at = NULL,
       settled_at = NULL, settlement = NULL, file_key = NULL, output_fence = NULL, output_taken = 0, deadline_at = ?, run_after = NULL, is_held = ?
     WHERE id = ? AND state IN ('failed', 'expired') RETURNING ${COLUMNS}`,
    deadline_at,
    is_held,
    id,
  )[0]!;
}

/**
 * Writes all that an attempt used into the error of its job, which was ended while the attempt ran. A job that was tried
 * again since, or ended before it was given out again, stays as it is. `JobRows` has no row of a job that ended so.
 */
export function setUsage(
  sql: Sql,
  id: string,
  fenceToken: number,
  usage: NonNullable<Failure['usage']>,
): void {
  sql.exec(
    `UPDATE jobs SET error = json_set(error, '$.usage', json(?))
     WHERE id = ? AND fence_token = ? AND worker_id IS NOT NULL AND state IN ('cancelled', 'expired')`,
    JSON.stringify(usage),
    id,
    fenceToken,
  );
}

/** Forgets the payload and result of a settled job, and its worker's words, which may quote them. */
export function eraseContents(sql: Sql, { id, error, attempt_errors }: StoredJob): void {
  sql.exec(
    `UPDATE jobs SET payload = NULL, result = NULL, payload_file = NULL, result_file = NULL, status_message = NULL,
       error = ?, attempt_errors = ?
     WHERE id = ? AND settled_at IS NOT NULL`,
    error === null ? null : JSON.stringify(wordless(JSON.parse(error) as Failure)),
    JSON.stringify((JSON.parse(attempt_errors) as Failure[]).map(wordless)),
    id,
  );
}

/** Returns a failure without the words of the engine or the worker. */
function wordless<F extends Failure>({ body: _, ...failure }: F) {
  return { ...failure, message: 'The words of this error were deleted with the contents of the job.' };
}

export function deleteJobs(sql: Sql, seqs: readonly number[]): void {
  sql.exec(`DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(?))`, JSON.stringify(seqs));
}

/** Returns the job's payload; null if it lies in a file. */
export function readPayload(sql: Sql, id: string): string | null {
  return row<{ payload: string | null }>(sql, `SELECT payload FROM jobs WHERE id = ?`, id)?.payload ?? null;
}

/** Returns the job's result; null if there is none or it lies in a file. */
export function readResult(sql: Sql, id: string): string | null {
  return row<{ result: string | null }>(sql, `SELECT result FROM jobs WHERE id = ?`, id)?.result ?? null;
}

/** Returns JSON of the KeptPartial that the next attempt goes on from; null if it begins anew. */
export function readKept(sql: Sql, id: string): string | null {
  return row<{ partial: string | null }>(sql, `SELECT partial FROM jobs WHERE id = ?`, id)?.partial ?? null;
}

/** Returns the key to the files of the newest attempt; null before the first. */
export function readFileKey(sql: Sql, id: string): string | null {
  return (
    row<{ file_key: string | null }>(sql, `SELECT file_key FROM jobs WHERE id = ?`, id)?.file_key ?? null
  );
}

/** Notes that the result of this attempt lies in a file. */
export function setResultFile(sql: Sql, id: string, fenceToken: number, file: string): void {
  sql.exec(
    `UPDATE jobs SET result_file = ? WHERE id = ? AND fence_token = ? AND settled_at IS NULL`,
    file,
    id,
    fenceToken,
  );
}

export function deadlinesDue(sql: Sql, now: number): StoredJob[] {
  return jobs(
    sql,
    `SELECT ${COLUMNS} FROM jobs WHERE deadline_at <= ? AND settled_at IS NULL LIMIT 500`,
    now,
  );
}

/** Returns the epoch ms of the next thing that the alarm must look at; null if there is none. */
export function nextDue(sql: Sql): number | null {
  const next = row<{ at: number | null }>(
    sql,
    `SELECT min(at) AS at FROM (
       SELECT min(lease_expires_at) AS at FROM jobs WHERE state = 'leased'
       UNION ALL SELECT min(run_after) FROM jobs WHERE state = 'pending' AND run_after IS NOT NULL
       UNION ALL SELECT min(deadline_at) FROM jobs WHERE deadline_at IS NOT NULL AND settled_at IS NULL)`,
  );
  return next?.at ?? null;
}

/** Reserves a block of fence tokens, so that no restart can hand one out twice. @returns the first of them */
export function reserveFences(sql: Sql, count: number): number {
  const reserved = row<{ value: number }>(
    sql,
    `INSERT INTO meta (key, value) VALUES ('next_fence', ?)
     ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + ? RETURNING CAST(value AS INTEGER) AS value`,
    count + 1,
    count,
  );
  return reserved!.value - count;
}

export function readOutputCursor(sql: Sql, jobId: string): OutputCursor {
  const found = row<{ output_fence: number | null; output_taken: number }>(
    sql,
    `SELECT output_fence, output_taken FROM jobs WHERE id = ?`,
    jobId,
  );
  return { fence_token: found?.output_fence ?? 0, taken: found?.output_taken ?? 0 };
}

/** Moves the cursor on from where it was read. @returns false if another call has moved it */
export function moveOutputCursor(sql: Sql, jobId: string, from: OutputCursor, to: OutputCursor): boolean {
  const moved = sql.exec(
    `UPDATE jobs SET output_fence = ?, output_taken = ?
     WHERE id = ? AND coalesce(output_fence, 0) = ? AND output_taken = ? RETURNING id`,
    to.fence_token,
    to.taken,
    jobId,
    from.fence_token,
    from.taken,
  );
  return moved.length > 0;
}
