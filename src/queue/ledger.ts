import type { LedgerView } from './calls.ts';
import type { Core } from './core.ts';
import { findJob, type JobRow } from './tables.ts';

/**
 * What happened to each persisted job, step by step, for whoever asks why it ran twice or where its time
 * went. A step is one row, written in the commit of the verb that takes it. Rows rather than one growing text
 * for each job: in workerd both cost the same, and single steps can be dropped where a job is handed back
 * for days. Their numbers come from memory: asking the table for the job's last one costs as much again.
 */

/**
 * - `submitted`, `dispatched` (to the worker named)
 * - `started`            the worker's first progress of this attempt, where it reports any
 * - `renewed_late`       a renewal came when less than half of what renewing leaves of a lease was left
 * - `disconnected`       the worker's socket closed; its lease lasts the reconnect grace
 * - `resumed`            the worker is back and goes on
 * - `released`           the worker handed it back: why; nothing charged
 * - `returned`           the queue took it back: why; nothing charged
 * - `attempt_failed`, `lease_expired`   charged: why, and when it is tried again
 * - `settled`            succeeded or failed
 * - `cancelled`, `expired`
 * - `acknowledged_again` the worker repeated its settlement
 * - `refused_stale`      a settlement of an older attempt, or of a job that is over: it changed nothing
 */
export type LedgerStep =
  | 'submitted'
  | 'dispatched'
  | 'started'
  | 'renewed_late'
  | 'disconnected'
  | 'resumed'
  | 'released'
  | 'returned'
  | 'attempt_failed'
  | 'lease_expired'
  | 'settled'
  | 'cancelled'
  | 'expired'
  | 'acknowledged_again'
  | 'refused_stale';

/** A longer ledger keeps its first steps and its newest: the middle of a thousand refusals tells nothing. */
const FIRST_STEPS = 50;
const NEWEST_STEPS = 450;

/** What of a job a step tells: the row as it stood during the attempt that the step is about. */
type Subject = Pick<JobRow, 'seq' | 'state' | 'attempts' | 'fence_token' | 'worker_id'>;

/** Steps that a job takes once an attempt at most, and attempts are few: only the others can grow a ledger. */
const ORDINARY: ReadonlySet<LedgerStep> = new Set(['submitted', 'dispatched', 'started', 'settled']);

/** Writes one step. */
export function record(core: Core, row: Subject, step: LedgerStep, detail: string | null = null): void {
  core.sql.exec(
    `INSERT INTO ledger (job, n, at, step, attempt, fence_token, worker_id, detail)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    row.seq,
    core.steps.next(),
    core.now(),
    step,
    attemptOf(row),
    row.fence_token,
    row.worker_id,
    detail,
  );
  if (!ORDINARY.has(step)) trim(core, row.seq);
}

function trim(core: Core, job: number): void {
  const count = Number(core.sql.exec(`SELECT count(*) AS n FROM ledger WHERE job = ?`, job)[0]?.n);
  const excess = count - FIRST_STEPS - NEWEST_STEPS;
  if (excess <= 0) return;
  core.sql.exec(
    `DELETE FROM ledger WHERE job = ? AND n IN (SELECT n FROM ledger WHERE job = ? ORDER BY n LIMIT ? OFFSET ?)`,
    job,
    job,
    excess,
    FIRST_STEPS,
  );
}

/** The steps of a stored job in their order; null: there is no such job. */
export function ledgerOf(core: Core, jobId: string): LedgerView | null {
  const row = findJob(core.sql, jobId);
  if (!row) return null;
  const steps = core.sql.exec(
    `SELECT at, step, attempt, fence_token, worker_id, detail FROM ledger WHERE job = ? ORDER BY n`,
    row.seq,
  );
  return {
    job_id: row.id,
    steps: steps.map((step) => ({
      ...(step as unknown as LedgerView['steps'][number]),
      at: new Date(Number(step.at)).toISOString(),
    })),
  };
}

/** The attempt a row is in, or was in last; 0 before the first. */
function attemptOf(row: Subject): number {
  if (row.fence_token === 0) return 0;
  const uncharged = row.state === 'leased' || row.state === 'succeeded';
  return Math.max(1, row.attempts + (uncharged ? 1 : 0));
}
