import { attemptErrors, iso } from '../attempts/view.ts';
import { type LedgerView, maySee, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { findJob, type JobRow } from '../store/jobs-table.ts';

/**
 * What happened to each persisted job, step by step, for whoever asks why it ran twice or where its time went.
 *
 * The job's row tells its submission, its newest attempt and its end; the table `ledger` holds what the row
 * does not keep, written in the commit of the verb that takes the step. A job that runs through without a
 * hitch has no row there: three rows for each job would cost a quarter of the queue's rate (measured).
 *
 * - `submitted`, `dispatched` (to the worker named)
 * - `started`            its request went to the engine; of a base worker, its first progress
 * - `first_token`        where the engine streams the answer. These two are told by the settlement, afterwards
 * - `renewed_late`       a renewal came when less than half of what renewing in time leaves of a lease was left
 * - `disconnected`       the worker's socket closed, or the queue restarted; its lease lasts the reconnect grace
 * - `resumed`            the worker is back and goes on
 * - `released`           the worker released it: why; nothing charged
 * - `returned`           the queue took it back: why; nothing charged
 * - `attempt_failed`, `lease_expired`   charged: why, and when it is tried again
 * - `settled`            succeeded or failed
 * - `cancelled`, `expired`
 * - `acknowledged_again` the worker repeated its settlement
 * - `refused_stale`      a settlement of an older attempt, or of a job that is over: it changed nothing
 */
export type RecordedStep =
  | 'dispatched'
  | 'started'
  | 'first_token'
  | 'renewed_late'
  | 'disconnected'
  | 'resumed'
  | 'released'
  | 'returned'
  | 'attempt_failed'
  | 'lease_expired'
  | 'acknowledged_again'
  | 'refused_stale';

/** Steps that give the job to someone else: its row is to forget who had it. */
const ENDS_ATTEMPT: ReadonlySet<RecordedStep> = new Set([
  'released',
  'returned',
  'attempt_failed',
  'lease_expired',
]);

/** A longer ledger keeps its first steps and its newest: the middle of a thousand refusals tells nothing. */
const FIRST_STEPS = 50;
const NEWEST_STEPS = 450;

type Step = LedgerView['steps'][number];

/**
 * Writes one step.
 * @param row as it stood during the attempt that the step is about
 */
export function record(core: Core, row: JobRow, step: RecordedStep, detail: string | null = null): void {
  if (ENDS_ATTEMPT.has(step)) {
    const known = stepsRecorded(core, row);
    for (const [kept, at] of keptByRow(row)) if (!known.has(kept)) insert(core, row, kept, at, null);
  }
  insert(core, row, step, core.now(), detail);
}

/** The steps of a stored job in their order; null: there is no such job. */
export function ledgerOf(core: Core, jobId: string, viewer: Viewer): LedgerView | null {
  const row = findJob(core.sql, jobId);
  if (!row || !maySee(viewer, row.tenant)) return null;
  const steps = recorded(core, row);
  const { fence_token, worker_id } = row;
  const newest = steps.filter((step) => step.fence_token === fence_token);
  const attempt = newest.find(({ step }) => step === 'dispatched')?.attempt ?? attemptOf(row);
  for (const [step, atMs] of keptByRow(row)) {
    if (newest.some((recorded) => recorded.step === step)) continue;
    steps.push({ at: iso(atMs), step, attempt, fence_token, worker_id, detail: null });
  }
  if (row.settled_at !== null) {
    const step = row.state === 'cancelled' || row.state === 'expired' ? row.state : 'settled';
    const at = iso(row.settled_at);
    steps.push({ at, step, attempt, fence_token, worker_id, detail: endOf(row) });
  }
  const at = iso(row.created_at);
  const submitted = { at, step: 'submitted', attempt: 0, fence_token: 0, worker_id: null, detail: null };
  return { job_id: row.id, steps: [submitted, ...steps.sort(inOrder)] };
}

function insert(core: Core, row: JobRow, step: RecordedStep, at: number, detail: string | null): void {
  const [written] = core.sql.exec(
    `INSERT INTO ledger (job, n, at, step, attempt, fence_token, worker_id, detail)
     VALUES (?, (SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE job = ?), ?, ?, ?, ?, ?, ?) RETURNING n`,
    row.seq,
    row.seq,
    at,
    step,
    attemptOf(row),
    row.fence_token,
    row.worker_id,
    detail,
  );
  const n = Number(written?.n);
  if (n <= FIRST_STEPS + NEWEST_STEPS) return;
  core.sql.exec(`DELETE FROM ledger WHERE job = ? AND n = ?`, row.seq, n - NEWEST_STEPS);
}

/** What the row tells of its newest attempt, each with its time in epoch ms. */
function keptByRow(row: JobRow): [RecordedStep, number][] {
  const kept: [RecordedStep, number | null][] = [
    ['dispatched', row.leased_at],
    ['started', row.started_at],
    ['first_token', row.first_token_at],
  ];
  return kept.filter((step): step is [RecordedStep, number] => step[1] !== null);
}

/** Steps of the row's attempt: a worker that comes back after its lease had run out may lose the job once more. */
function stepsRecorded(core: Core, row: JobRow): Set<unknown> {
  const found = core.sql.exec(
    `SELECT step FROM ledger WHERE job = ? AND fence_token = ?`,
    row.seq,
    row.fence_token,
  );
  return new Set(found.map(({ step }) => step));
}

function recorded(core: Core, row: JobRow): Step[] {
  const steps = core.sql.exec(
    `SELECT at, step, attempt, fence_token, worker_id, detail FROM ledger WHERE job = ? ORDER BY n`,
    row.seq,
  );
  return steps.map((step) => ({ ...(step as unknown as Step), at: iso(Number(step.at)) }));
}

/** By time; within a millisecond by attempt, and there as they follow on each other. */
function inOrder(one: Step, other: Step): number {
  if (one.at !== other.at) return one.at < other.at ? -1 : 1;
  return one.fence_token - other.fence_token || rank(one) - rank(other);
}

function rank({ step }: Step): number {
  if (step === 'dispatched') return 0;
  if (step === 'started') return 1;
  if (step === 'first_token') return 2;
  if (step === 'settled' || step === 'cancelled' || step === 'expired') return 4;
  return step === 'acknowledged_again' || step === 'refused_stale' ? 5 : 3;
}

/** The attempt a row is in, or was in last; 0 before the first. */
function attemptOf(row: JobRow): number {
  if (row.fence_token === 0) return 0;
  const charged = attemptErrors(row).find((error) => error.fence_token === row.fence_token);
  return charged?.attempt ?? row.attempts + 1;
}

function endOf(row: JobRow): string {
  if (row.error === null) return row.state;
  const { code, message } = JSON.parse(row.error) as { code: string; message: string };
  return row.state === 'failed' ? `failed: ${code}: ${message}` : message;
}
