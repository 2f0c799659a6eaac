import type { AttemptError, Failure } from '../protocol/index.ts';
import { type Core, due } from './core.ts';
import { type JobRow, returnJob, settleJob } from './tables.ts';
import { attemptErrors, tellWaiters } from './view.ts';

const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 60_000;

/** Delay before the attempt after `attempts` failures, ms: doubles from 1 s to 60 s, half of it random. */
export function retryDelayMs(attempts: number, random: number): number {
  const full = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.max(0, attempts - 1));
  return Math.round(full * (0.5 + random / 2));
}

/** Charges a failure to the job: another attempt later if it may have one, else it fails with all its errors. */
export function failAttempt(core: Core, row: JobRow, failure: Failure): void {
  const now = core.now();
  const attempts = row.attempts + 1;
  const error: AttemptError = {
    ...failure,
    attempt: attempts,
    fence_token: row.fence_token,
    ...(row.worker_id === null ? {} : { worker_id: row.worker_id }),
    at: new Date(now).toISOString(),
  };
  const errors = [...attemptErrors(row), error];
  core.fleet.vacate(row.worker_id, row.id, row.fence_token);
  if (failure.retryable && attempts < row.max_attempts) {
    const runAfter = now + retryDelayMs(attempts, core.random());
    returnJob(core.sql, row, { attempts, attempt_errors: errors, run_after: runAfter });
    due(core, runAfter);
    return;
  }
  settleJob(core.sql, row, {
    state: 'failed',
    settled_at: now,
    worker_id: row.worker_id,
    attempts,
    attempt_errors: errors,
    result: null,
    error: failure,
  });
  tellWaiters(core, row.id);
}

/** Back to pending without blame; `delayMs` keeps it from bouncing straight back to who refused it. */
export function returnUncharged(core: Core, row: JobRow, delayMs: number): void {
  core.fleet.vacate(row.worker_id, row.id, row.fence_token);
  const runAfter = delayMs > 0 ? core.now() + delayMs : null;
  returnJob(core.sql, row, {
    attempts: row.attempts,
    attempt_errors: attemptErrors(row),
    run_after: runAfter,
  });
  if (runAfter !== null) due(core, runAfter);
}
