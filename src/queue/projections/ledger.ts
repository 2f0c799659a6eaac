import type { LedgerView } from '../../protocol/index.ts';
import type { JobEvent, JobStep } from '../events/event.ts';
import type { Projection } from '../events/projection.ts';
import type { StoredJob, WaitingJob } from '../job.ts';
import { iso, maySee, type Viewer } from '../rpc.ts';
import { Newest } from '../state/recent-requests.ts';
import type { Core } from '../state/state.ts';
import { newestAttempt } from '../store/job-view.ts';
import { findJob } from '../store/jobs-table.ts';
import type { Sql } from '../store/ports.ts';
import { rows } from '../store/ports.ts';

/**
 * Records what happened to each job, step by step: why it ran twice, where its time went.
 *
 * A stored job's row has its submission, its newest attempt and its end. The table `ledger` holds what the row does
 * not, written in the commit of the command that takes the step. A job that runs through without a hitch has no row
 * there: three rows for each job would cost a quarter of the queue's rate (measured).
 *
 * The ledgers of the newest waiting jobs are in memory like those jobs themselves, and cost no commit. All requests of
 * the gateway under one id share one ledger.
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

/** The most waiting jobs whose ledgers are kept: a busy gateway makes as many in seconds, and each takes a kilobyte. */
const MOST_RECENT = 1000;
/** The most steps of a waiting job's ledger: a job that is released again and again keeps its first steps. */
const MOST_STEPS = 100;
/** The most characters kept of a worker's words about a waiting job. */
const MOST_DETAIL = 4096;

type Step = LedgerView['steps'][number];

/** One step of a job, with its time in epoch ms; for a stored job it is a row. */
interface LedgerStep {
  at: number;
  step: string;
  attempt: number;
  fence_token: number;
  worker_id: string | null;
  detail: string | null;
}

/** Keeps the ledgers of all jobs. */
export class Ledger implements Projection {
  readonly #sql: Sql;
  readonly #recent = new Newest<string, { tenant: string | null; steps: LedgerStep[] }>(MOST_RECENT);

  constructor({ sql }: Pick<Core, 'sql'>) {
    this.#sql = sql;
  }

  on(event: JobEvent): void {
    const { job, step, at } = event;
    const isAsked = job.mode === 'waiting' && this.#recent.has(job.id);
    if (job.mode === 'stored') this.#onStored(event, job);
    else this.#onWaiting(event, job);
    if (step !== 'submitted' || isAsked) return;
    for (const note of job.extras.notes ?? []) this.on({ ...event, step: 'noted', detail: note, at });
  }

  forget(jobs: readonly { seq: number }[]): void {
    forgetSteps(this.#sql, JSON.stringify(jobs.map(({ seq }) => seq)));
  }

  erase({ seq }: { seq: number }): void {
    eraseDetails(this.#sql, seq);
  }

  /** Returns a job's ledger; null if it is neither stored nor among the newest waiting jobs, or not for this viewer. */
  of(jobId: string, viewer: Viewer): LedgerView | null {
    return ledgerOf(this.#sql, jobId, viewer) ?? this.#recentOf(jobId, viewer);
  }

  /** Says whether the job is among the newest waiting jobs. */
  isRecent(jobId: string): boolean {
    return this.#recent.has(jobId);
  }

  /** Adds what is learnt of a waiting job's answer beside its events, perhaps once the job is over. */
  addNote(jobId: string, step: 'not_moved' | 'noted', detail: string, at: number): void {
    const steps = this.#recent.get(jobId)?.steps;
    const last = steps?.at(-1);
    if (steps && last && steps.length < MOST_STEPS)
      steps.push({ ...last, at, step, detail: detail.slice(0, MOST_DETAIL) });
  }

  /** Writes one step of a stored job, unless the job's row keeps it. */
  #onStored({ step, detail, at }: JobEvent, job: StoredJob): void {
    if (KEPT_BY_ROW.has(step) && (step !== 'dispatched' || detail === null)) return;
    if (ENDS_ATTEMPT.has(step)) {
      // If the worker came back after its lease had run out, it may lose the job a second time: these steps are written
      // already.
      const known = stepsOfAttempt(this.#sql, job.seq, job.fence_token);
      for (const [kept, at] of keptByRow(job)) if (!known.has(kept)) insert(this.#sql, job, kept, at, null);
    }
    insert(this.#sql, job, step, at, detail);
  }

  #onWaiting({ step, detail, at, timing, firstTokenAt }: JobEvent, job: WaitingJob): void {
    const steps = this.#recent.get(job.id)?.steps;
    // The gateway asks again: it is the same request.
    if (step === 'submitted' && steps !== undefined) return;
    // The gateway asks again, since the worker that the answer was moved to failed: the move is in the ledger already.
    if (step === 'moved' && steps?.some((before) => before.step === step && before.detail === detail)) return;
    // The `attempt_failed` before says so already, and the gateway may ask again.
    if (step === 'settled' && steps?.at(-1)?.step === 'attempt_failed') return;
    const toldAt = (ms: number) => Math.min(at, Math.round((job.leased_at ?? at) + ms));
    if (timing?.started_ms !== undefined) this.#note(job, 'started', null, toldAt(timing.started_ms));
    if (timing?.first_token_ms !== undefined)
      this.#note(job, 'first_token', null, toldAt(timing.first_token_ms));
    if (firstTokenAt != null) this.#noteFirstToken(job, firstTokenAt);
    this.#note(job, step, detail, at);
  }

  /** Adds the first token of the newest attempt, unless its worker has reported it. */
  #noteFirstToken(job: WaitingJob, at: number): void {
    const steps = this.#recent.get(job.id)?.steps ?? [];
    const given = steps.findLastIndex(({ step }) => step === 'dispatched');
    if (given === -1 || steps.slice(given).some(({ step }) => step === 'first_token')) return;
    const { attempt, fence_token, worker_id, at: givenAt } = steps[given]!;
    const step = { step: 'first_token', attempt, fence_token, worker_id, detail: null };
    this.#push(job, { ...step, at: Math.max(givenAt, at) });
  }

  #note(job: WaitingJob, step: JobStep, detail: string | null, at: number): void {
    const before = this.#recent.get(job.id)?.steps.at(-1)?.attempt ?? 0;
    this.#push(job, {
      at,
      step,
      attempt: step === 'dispatched' ? before + 1 : before,
      fence_token: job.fence_token,
      worker_id: job.worker_id,
      detail: detail?.slice(0, MOST_DETAIL) ?? null,
    });
  }

  #push({ id, tenant }: WaitingJob, step: LedgerStep): void {
    const steps = this.#recent.get(id)?.steps;
    if (steps === undefined) this.#recent.set(id, { tenant, steps: [step] });
    else if (steps.length < MOST_STEPS) steps.push(step);
  }

  #recentOf(jobId: string, viewer: Viewer): LedgerView | null {
    const recent = this.#recent.get(jobId);
    if (recent === undefined || !maySee(viewer, recent.tenant)) return null;
    // Workers report some steps afterwards.
    const inOrder = recent.steps.toSorted((one, other) => one.at - other.at);
    return { job_id: jobId, steps: inOrder.map((step) => ({ ...step, at: iso(step.at) })) };
  }
}

/** Returns a job's ledger; null if there is none, or none for this viewer. */
export function ledger({ projections }: Core, jobId: string, viewer: Viewer): LedgerView | null {
  return projections.get(Ledger).of(jobId, viewer);
}

/** Notes in the job's ledger why the answer to a waiting caller broke off where no other worker could go on with it. */
export function stayed({ projections, now }: Core, jobId: string, why: string): void {
  projections.get(Ledger).addNote(jobId, 'not_moved', why, now());
}

/** Notes in the ledger of a job what a filter says of it. A job of which nothing is known any more has no ledger. */
export function note(core: Core, jobId: string, detail: string): void {
  const job = findJob(core.sql, jobId);
  if (job !== null) insert(core.sql, job, 'noted', core.now(), detail);
  else core.projections.get(Ledger).addNote(jobId, 'noted', detail, core.now());
}

/** Returns the steps of a stored job in order; null if there is no such job, or this viewer may not see it. */
function ledgerOf(sql: Sql, jobId: string, viewer: Viewer): LedgerView | null {
  const row = findJob(sql, jobId);
  if (!row || !maySee(viewer, row.tenant)) return null;
  const steps: Step[] = readSteps(sql, row.seq).map((step) => ({ ...step, at: iso(step.at) }));
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

function insert(sql: Sql, row: StoredJob, step: JobStep, at: number, detail: string | null): void {
  const { fence_token, worker_id } = row;
  const written = { at, step, attempt: attemptOf(row), fence_token, worker_id, detail };
  const n = insertStep(sql, row.seq, written);
  if (n > FIRST_STEPS + NEWEST_STEPS) deleteStep(sql, row.seq, n - NEWEST_STEPS);
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

/** Writes one step. @param job the job's `seq` @returns how many steps the job has had */
function insertStep(sql: Sql, job: number, row: LedgerStep): number {
  const [written] = sql.exec(
    `INSERT INTO ledger (job, n, at, step, attempt, fence_token, worker_id, detail)
     VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE job = ?1), ?2, ?3, ?4, ?5, ?6, ?7) RETURNING n`,
    job,
    row.at,
    row.step,
    row.attempt,
    row.fence_token,
    row.worker_id,
    row.detail,
  );
  return Number(written?.n);
}

/** Deletes one step. @param n the number of the step, from 1 */
function deleteStep(sql: Sql, job: number, n: number): void {
  sql.exec(`DELETE FROM ledger WHERE job = ? AND n = ?`, job, n);
}

/** Returns a job's steps in the order in which they were written. */
function readSteps(sql: Sql, job: number): LedgerStep[] {
  const columns = 'at, step, attempt, fence_token, worker_id, detail';
  return rows(sql, `SELECT ${columns} FROM ledger WHERE job = ? ORDER BY n`, job);
}

/** Returns the names of one attempt's steps. */
function stepsOfAttempt(sql: Sql, job: number, fenceToken: number): Set<string> {
  const query = `SELECT step FROM ledger WHERE job = ? AND fence_token = ?`;
  return new Set(rows<{ step: string }>(sql, query, job, fenceToken).map(({ step }) => step));
}

/** Deletes the steps of these jobs. @param seqs a JSON array of each job's `seq` */
function forgetSteps(sql: Sql, seqs: string): void {
  sql.exec(`DELETE FROM ledger WHERE job IN (SELECT value FROM json_each(?))`, seqs);
}

/** Forgets the details of a job's steps, of which some have the words of a worker or an engine. @param job its `seq` */
function eraseDetails(sql: Sql, job: number): void {
  sql.exec(`UPDATE ledger SET detail = NULL WHERE job = ? AND detail IS NOT NULL`, job);
}
