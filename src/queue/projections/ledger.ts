import type { LedgerView } from '../../protocol/index.ts';
import type { JobEvent, JobStep } from '../events/event.ts';
import { iso, maySee, type Viewer } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { newestAttempt } from '../store/job-view.ts';
import { findJob, type StoredJob } from '../store/jobs-table.ts';
import { deleteStep, insertStep, readSteps, stepsOfAttempt } from './ledger-table.ts';

/**
 * What happened to each stored job, step by step: why it ran twice, where its time went.
 *
 * The job's row has its submission, its newest attempt and its end. The table `ledger` holds what the row does not,
 * written in the commit of the command that takes the step. A job that runs through without a hitch has no row there:
 * three rows for each job would cost a quarter of the queue's rate (measured).
 */

/**
 * Steps that the job's row keeps, so that the ledger need not. A dispatch with a detail goes into the ledger too, since
 * the row keeps only its time; `started` does if the worker reports it before it settles.
 */
const KEPT_BY_ROW: ReadonlySet<JobStep> = new Set([
  'submitted',
  'dispatched',
  'first_token',
  'settled',
  'cancelled',
  'expired',
]);

/**
 * Steps that end an attempt, so that the row forgets its worker: a ledger row keeps what the row said of the attempt.
 */
const ENDS_ATTEMPT: ReadonlySet<JobStep> = new Set([
  'released',
  'returned',
  'attempt_failed',
  'lease_expired',
  'retried',
]);

/** The first steps that a longer ledger keeps: the middle of a thousand repeats tells nothing. */
const FIRST_STEPS = 50;
/** The newest steps that a longer ledger keeps. */
const NEWEST_STEPS = 450;

type Step = LedgerView['steps'][number];

/** Writes one step of a stored job, unless the job's row keeps it. */
export function toLedger(core: Core, { job, step, detail, at }: JobEvent): void {
  const isKept = KEPT_BY_ROW.has(step) && (step !== 'dispatched' || detail === null);
  if (job.mode !== 'stored' || isKept) return;
  if (ENDS_ATTEMPT.has(step)) {
    // If the worker came back after its lease had run out, it may lose the job a second time: these steps are written
    // already.
    const known = stepsOfAttempt(core.sql, job.seq, job.fence_token);
    for (const [kept, at] of keptByRow(job)) if (!known.has(kept)) insert(core, job, kept, at, null);
  }
  insert(core, job, step, at, detail);
}

/** Returns the steps of a stored job in order; null if there is no such job, or this viewer may not see it. */
export function ledgerOf(core: Core, jobId: string, viewer: Viewer): LedgerView | null {
  const row = findJob(core.sql, jobId);
  if (!row || !maySee(viewer, row.tenant)) return null;
  const steps: Step[] = readSteps(core.sql, row.seq).map((step) => ({ ...step, at: iso(step.at) }));
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

function insert(core: Core, row: StoredJob, step: JobStep, at: number, detail: string | null): void {
  const { fence_token, worker_id } = row;
  const written = { at, step, attempt: attemptOf(row), fence_token, worker_id, detail };
  const n = insertStep(core.sql, row.seq, written);
  if (n > FIRST_STEPS + NEWEST_STEPS) deleteStep(core.sql, row.seq, n - NEWEST_STEPS);
}

/** Returns what the row says about its newest attempt, with times in epoch ms. */
function keptByRow(row: StoredJob): [JobStep, number][] {
  const kept: [JobStep, number | null][] = [
    ['dispatched', row.leased_at],
    ['started', row.started_at],
    ['first_token', row.first_token_at],
  ];
  return kept.filter((step): step is [JobStep, number] => step[1] !== null);
}

/** Compares steps by time, within a millisecond by attempt, and within an attempt as they follow on each other. */
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

/** Returns the attempt that the row's job is in, or was in last; 0 before the first. */
function attemptOf(row: StoredJob): number {
  return row.fence_token === 0 ? 0 : newestAttempt(row);
}

function endOf(row: StoredJob): string {
  if (row.error === null) return row.state;
  const { code, message } = JSON.parse(row.error) as { code: string; message: string };
  return row.state === 'failed' ? `failed: ${code}: ${message}` : message;
}
