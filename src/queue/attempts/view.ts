import type { AttemptError, Failure, JobView } from '../../protocol/index.ts';
import { packText } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { InBucket, resultKey } from '../store/blob-table.ts';
import { findJob, type JobRow, readResult } from '../store/jobs-table.ts';

/**
 * A job as the API shows it; a long result as `unpackView` reads it, or as InBucket.
 * @param withResult false leaves the result out: many together would not fit one answer
 */
export function viewOf(core: Core, row: JobRow, withResult = true): JobView {
  return {
    id: row.id,
    job_type: row.job_type,
    config_id: row.config_id,
    state: row.state,
    priority: row.priority,
    attempts: row.attempts,
    max_attempts: row.max_attempts,
    fence_token: row.fence_token,
    worker_id: row.state === 'pending' ? null : row.worker_id,
    progress: row.progress,
    status_message: row.status_message,
    created_at: iso(row.created_at),
    leased_at: row.leased_at === null ? null : iso(row.leased_at),
    settled_at: row.settled_at === null ? null : iso(row.settled_at),
    result: withResult && row.state === 'succeeded' ? resultOf(core, row.id) : null,
    error: row.error === null ? null : (JSON.parse(row.error) as Failure),
    attempt_errors: attemptErrors(row),
  };
}

function resultOf(core: Core, jobId: string): unknown {
  const text = readResult(core.sql, jobId);
  if (text === null) {
    const key = resultKey(core.sql, jobId);
    return key === null ? null : new InBucket(key);
  }
  const packed = packText(text);
  return typeof packed === 'string' ? JSON.parse(packed) : packed;
}

export function attemptErrors(row: JobRow): AttemptError[] {
  return JSON.parse(row.attempt_errors) as AttemptError[];
}

/** Answers everyone who waits for this job, now that it is settled. */
export function tellWaiters(core: Core, jobId: string): void {
  core.waiters.tell(jobId, () => {
    const row = findJob(core.sql, jobId);
    return row === null ? null : viewOf(core, row);
  });
}

/** Times go out in this form. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
