import { type AttemptError, type Failure, parseTraceparent } from '../../protocol/index.ts';
import type { StoredJob } from '../job.ts';
import { iso, type ToldJob } from '../rpc.ts';
import { readResult } from './jobs-table.ts';
import type { Sql } from './ports.ts';

/**
 * Returns a job as the API shows it, but for a result that lies in a file.
 * @param withResult false leaves the result out: many together would not fit one answer
 */
export function viewOf(sql: Sql, job: StoredJob, withResult = true): ToldJob {
  const hasResult = withResult && job.state === 'succeeded';
  return {
    ...summaryOf(job),
    fence_token: job.fence_token,
    trace_id: traceIdOf(job),
    ...(hasResult ? resultOf(sql, job) : { result: null }),
    ...(hasResult && job.result_file !== null && { result_file: job.result_file }),
    error: job.error === null ? null : (JSON.parse(job.error) as Failure),
    attempt_errors: attemptErrors(job),
  };
}

function traceIdOf({ extras: { trace } }: StoredJob): string | null {
  if (trace === undefined || trace.is_link) return null;
  return parseTraceparent(trace.traceparent)?.traceId ?? null;
}

/** Returns what a job's view and its entry in a list both show. */
export function summaryOf(job: StoredJob) {
  const at = (ms: number | null) => (ms === null ? null : iso(ms));
  return {
    id: job.id,
    job_type: job.job_type,
    config_id: job.config_id,
    state: job.state,
    priority: job.priority,
    attempts: attemptsOf(job),
    max_attempts: job.max_attempts,
    stream: job.stream === 1,
    worker_id: job.state === 'pending' ? null : job.worker_id,
    progress: job.progress,
    status_message: job.status_message,
    created_at: iso(job.created_at),
    deadline_at: at(job.deadline_at),
    leased_at: at(job.leased_at),
    started_at: at(job.started_at),
    first_token_at: at(job.first_token_at),
    settled_at: at(job.settled_at),
    tenant: job.tenant,
  };
}

/**
 * Returns how many attempts were made so far, from 0 to `max_attempts`: failed ones, and the newest if it runs,
 * succeeded, or was cut short by a cancellation or the deadline. Released attempts do not count.
 */
function attemptsOf(job: StoredJob): number {
  const { state, worker_id, attempts } = job;
  // The row of a pending job still names its last worker; `attempts` has what failed and was charged.
  if (state === 'pending' || state === 'failed' || worker_id === null) return attempts;
  return newestAttempt(job);
}

/**
 * Returns the newest attempt's number, from 1. One whose lease ran out was charged, and may be resumed or succeed yet.
 */
export function newestAttempt(job: StoredJob): number {
  const charged = attemptErrors(job).find(({ fence_token }) => fence_token === job.fence_token);
  return charged?.attempt ?? job.attempts + 1;
}

/** The most characters of an error message where jobs are listed. */
const SHORT_MESSAGE = 500;

/** Returns the error of a job for an answer with several jobs: without the engine's body, a long message cut short. */
export function shortErrorOf({ error }: StoredJob): { code: string; message: string } | null {
  if (error === null) return null;
  const { code, message } = JSON.parse(error) as Failure;
  return { code, message: message.length > SHORT_MESSAGE ? `${message.slice(0, SHORT_MESSAGE)} …` : message };
}

/** Returns the error of every attempt that was charged, in order. */
export function attemptErrors(job: { attempt_errors: string }): AttemptError[] {
  return JSON.parse(job.attempt_errors) as AttemptError[];
}

function resultOf(sql: Sql, { id, result_file }: StoredJob): Pick<ToldJob, 'result' | 'result_text'> {
  const text = result_file === null ? readResult(sql, id) : null;
  if (text === null) return { result: null };
  const result: unknown = JSON.parse(text);
  return { result, ...(JSON.stringify(result) !== text && { result_text: text }) };
}
