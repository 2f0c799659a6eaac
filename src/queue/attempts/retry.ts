import { type AttemptError, type Failure, limits } from '../../protocol/index.ts';
import { type RecordedStep, record } from '../events/ledger.ts';
import { type Core, due } from '../state/state.ts';
import { type JobRow, returnJob } from '../store/jobs-table.ts';
import { endJob } from './end.ts';
import { attemptErrors } from './view.ts';

const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 60_000;

/** Delay before the attempt after `attempts` failures, ms: doubles from 1 s to 60 s, half of it random. */
export function retryDelayMs(attempts: number, random: number): number {
  const full = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.max(0, attempts - 1));
  return Math.round(full * (0.5 + random / 2));
}

/**
 * Charges a failure to the job: another attempt later if it may have one, else it fails with all its errors.
 * One attempt is charged once: taken up again at a reconnect it may fail a second time, or say so again.
 */
export function failAttempt(core: Core, row: JobRow, told: Failure): void {
  const failure = shortened(told, limits.JOB_ROW_ERROR_CHARACTERS / row.max_attempts);
  const now = core.now();
  const earlier = attemptErrors(row).filter(({ fence_token }) => fence_token !== row.fence_token);
  const attempts = earlier.length + 1;
  const error: AttemptError = {
    ...failure,
    attempt: attempts,
    fence_token: row.fence_token,
    ...(row.worker_id === null ? {} : { worker_id: row.worker_id }),
    at: new Date(now).toISOString(),
  };
  const errors = [...earlier, error];
  const again = failure.retryable && attempts < row.max_attempts;
  const delayMs = again ? retryDelayMs(attempts, core.random()) : 0;
  const what = `${failure.code}: ${failure.message}`;
  const next = again ? `; again in ${delayMs / 1000} s` : '; not tried again';
  record(core, row, failure.code === 'lease_expired' ? 'lease_expired' : 'attempt_failed', what + next);
  core.fleet.freeSlot(row.worker_id, row.id, row.fence_token);
  if (again) {
    putBack(core, row, { attempts, attempt_errors: errors, run_after: now + delayMs });
    return;
  }
  const worker_id = row.worker_id;
  const settlement = { state: 'failed', worker_id, attempts, attempt_errors: errors } as const;
  endJob(core, row, { ...settlement, result: null, error: failure });
}

/** The failure, its body left out and its message cut where it would be longer than `most` as JSON. */
function shortened(failure: Failure, most: number): Failure {
  if (JSON.stringify(failure).length <= most) return failure;
  const bodiless = failure.body === undefined ? failure : { ...failure, body: '(too long to be kept)' };
  if (JSON.stringify(bodiless).length <= most) return bodiless;
  // Escaped, a character takes up to six.
  return { ...bodiless, message: `${failure.message.slice(0, most / 8)} … (too long to be kept)` };
}

/**
 * Back to pending without blame; `delayMs` keeps it from bouncing straight back to who refused it.
 * @param why for the ledger
 */
export function returnUncharged(
  core: Core,
  row: JobRow,
  delayMs: number,
  step: RecordedStep,
  why: string,
): void {
  core.fleet.freeSlot(row.worker_id, row.id, row.fence_token);
  record(core, row, step, why);
  const runAfter = delayMs > 0 ? core.now() + delayMs : null;
  putBack(core, row, { attempts: row.attempts, attempt_errors: attemptErrors(row), run_after: runAfter });
}

function putBack(core: Core, row: JobRow, change: Parameters<typeof returnJob>[2]): void {
  if (row.state === 'leased') core.pending.entered(row);
  returnJob(core.sql, row, change);
  if (change.run_after !== null) due(core, change.run_after);
  else core.openings.config(row.config_id);
}
