import { RETRY_AFTER_SECONDS, waitingFull } from '../admission/fullness.ts';
import { targetsOf } from '../aliases/resolve.ts';
import type { PoolStart } from '../fleet/rpc.ts';
import { listNames, shortName } from '../protocol/index.ts';
import { endUnfinished, timePassed } from './attempts/end.ts';
import { mayBeGiven } from './dispatch/equals.ts';
import { emit } from './events/projection.ts';
import type { WaitingJob } from './job.ts';
import type { RequestAnswer, WaitingLineView } from './rpc.ts';
import type { Core } from './state/state.ts';
import { isLeaving, mayRun, type Worker } from './state/worker.ts';
import { due } from './store/ports.ts';

/** Decides whether a job may wait and until when, and words the answer to its caller when it may not. */

/**
 * Handles a job that found no slot at once: it waits if a worker may still take it and there is room; otherwise it is
 * rejected.
 */
export function waitOrReject(core: Core, job: WaitingJob): void {
  const workers = equalsOf(core, job, workersFor(core, job.model));
  if (rejectIfUnserviceable(core, job, workers)) return;
  const full = job.has_room ? null : waitingFull(job, core.waiting.line, core.settings);
  if (full !== null) {
    reject(core, job, full);
    return;
  }
  job.has_room = true;
  core.waiting.line.nextRejection.lower(rejectedAt(core, job, workers));
}

/** Admits jobs that were held back and now have room. @returns whether there is anything new for a dispatch pass */
export function admitHeld(core: Core): boolean {
  const { admission, stored, waiting } = core;
  if (!admission.holdsAny) return false;
  const isOneIn = admission.admitHeld({
    admitted: (job) => waiting.admitted(job),
    refused: (job, refusal) => reject(core, job, refusal),
    oldest: (line) => stored.oldestHeld(line),
    ready: (job) => stored.unhold(job),
  });
  if (admission.opensAt !== null) due(core, admission.opensAt);
  return isOneIn;
}

/** Rejects waiting jobs whose time is over. */
export function rejectOverdue(core: Core): void {
  const next = nextRejection(core);
  if (next === null || core.now() < next) return;
  for (const [model, jobs] of core.waiting.line.byModel()) {
    const workers = workersFor(core, model);
    for (const job of jobs) rejectIfUnserviceable(core, job, equalsOf(core, job, workers));
  }
  core.waiting.line.nextRejection.forget();
}

/** Returns the epoch ms at which `rejectOverdue` may have something to do; null if never. */
export function nextRejection(core: Core): number | null {
  const { line } = core.waiting;
  if (line.size === 0) return null;
  return line.nextRejection.get(core.workers.changes, () => {
    let next = Number.POSITIVE_INFINITY;
    for (const [model, jobs] of line.byModel()) {
      const workers = workersFor(core, model);
      for (const job of jobs) next = Math.min(next, rejectedAt(core, job, equalsOf(core, job, workers)));
    }
    return next;
  });
}

/** Returns the waiting line by model: which jobs wait, in order, and what the scheduler does for them. */
export function waitingLines(core: Core): WaitingLineView[] {
  const lines = Map.groupBy(core.backlog.order(), ({ model }) => model);
  return [...lines].map(([model, jobs]) => {
    const start = workersFor(core, model).length > 0 ? null : startOf(core, jobs[0]!);
    return { job_ids: jobs.map(({ id }) => id), start: start?.text ?? null };
  });
}

/**
 * Says whether to ask the fleet object about starts although the queue has nothing to report: callers wait for a start,
 * or the next caller would be rejected because there is none.
 */
export function awaitsStart(core: Core): boolean {
  const starts = core.starts.all();
  if (starts.some(({ state }) => state === 'stopped')) return true;
  return starts.length > 0 && waitingLines(core).some(({ start }) => start !== null);
}

/**
 * Takes the fleet object's report of the pools that the scheduler starts workers for: some callers need not wait any
 * longer.
 */
export function takeStarts(core: Core, starts: readonly PoolStart[]): void {
  if (!core.starts.replace(starts)) return;
  core.waiting.line.nextRejection.forget();
  rejectOverdue(core);
}

export function ambiguous(models: string): Rejection {
  return {
    kind: 'refused',
    reason: 'ambiguous_model',
    message: `name a model, there are several: ${models}`,
    retry_after_seconds: 0,
  };
}

/** Rejects a waiting job whose time is over, or that every worker has declined. @returns whether it was rejected */
function rejectIfUnserviceable(core: Core, job: WaitingJob, workers: readonly Worker[]): boolean {
  if (workers.length > 0 && workers.every(({ declined }) => declined.has(job.id))) {
    for (const { declined } of workers) declined.delete(job.id);
    reject(core, job, tooLate(job));
    return true;
  }
  const now = core.now();
  if (now < rejectedAt(core, job, workers)) return false;
  if (isOver(job, now)) endUnfinished(core, job, 'expired', 'deadline', timePassed(job, now));
  else if (job.held !== null) reject(core, job, core.admission.refusal(job));
  else reject(core, job, workers.length > 0 ? noSlot(job) : noWorker(core, job));
  return true;
}

/**
 * Returns the epoch ms at which the job is rejected. Callers wait for a worker that lost its connection until its grace
 * is over, and for a worker that is being started until its start should be done. If the scheduler starts none, no
 * caller waits for a start.
 */
function rejectedAt(core: Core, job: WaitingJob, workers: readonly Worker[]): number {
  const start = startOf(core, job);
  const startBy = start && job.waits_for_start ? job.created_at + start.wait_ms : 0;
  const slotBy = Math.max(job.slot_by, Math.min(startBy, endOf(job)));
  if (workers.length > 0) return slotBy;
  const backBy = core.workers.expectedUntil(core.now(), (worker) => mayRun(worker, job.model));
  if (start?.state === 'stopped') return Math.min(slotBy, backBy);
  const byWait = Math.max(job.worker_by, backBy, startBy);
  return Math.min(slotBy, start && job.start_by !== null ? Math.min(byWait, job.start_by) : byWait);
}

/**
 * Returns what the scheduler does for the job's pool; null if it starts no workers, or those that it started serve
 * another model.
 */
function startOf(core: Core, { config_id, model }: WaitingJob): PoolStart | null {
  const start = core.starts.of(config_id);
  if (start === null || workersFor(core, model).length > 0) return start;
  return startedFor(core, start).length > 0 ? null : start;
}

/**
 * Returns the workers that were started with the pool as it is now: workers from before a change say nothing about what
 * the pool serves.
 */
function startedFor(core: Core, { config_id, outdated }: PoolStart): Worker[] {
  return workersFor(core, config_id).filter(({ session }) => !outdated.includes(session.worker_id));
}

/** Returns the job's deadline or time limit, whichever is earlier, epoch ms. */
function endOf({ deadline_at, limit_at }: WaitingJob): number {
  return Math.min(deadline_at ?? Number.POSITIVE_INFINITY, limit_at ?? Number.POSITIVE_INFINITY);
}

/** Says whether the job's own time is over, not only its wait. */
function isOver(job: WaitingJob, now: number): boolean {
  return endOf(job) <= now;
}

export function reject(core: Core, job: WaitingJob, answer: Rejection): void {
  core.waiting.remove(job);
  emit(core, job, 'refused', answer.message, { refusal: answer.reason });
  job.reply?.(answer);
}

/** Returns the connected workers that may run the model, now or when a slot frees. */
function workersFor(core: Core, model: string | null): Worker[] {
  return core.workers.all().filter((worker) => !isLeaving(worker) && mayRun(worker, model));
}

/** Returns those of the workers that may be given the job: of a moved answer only some may. */
function equalsOf(core: Core, job: WaitingJob, workers: readonly Worker[]): readonly Worker[] {
  return job.made_by === null ? workers : workers.filter((worker) => mayBeGiven(core, worker, job));
}

type Rejection = Extract<RequestAnswer, { kind: 'refused' }>;

function noWorker(core: Core, job: WaitingJob): Rejection {
  const { model, config_id } = job;
  const start = startOf(core, job);
  if (job.made_by !== null) {
    const message =
      'no worker is connected that serves the same model, in the same revision and with the same tokenizer';
    return again('no_worker', message);
  }
  const asked = `the model "${shortName(model ?? '')}"`;
  if (model !== null && config_id === '') {
    return {
      kind: 'refused',
      reason: 'unknown_model',
      message: `${asked} is not served here; ${servedNow(core)}`,
      retry_after_seconds: 0,
    };
  }
  if (start?.state === 'stopped') {
    const message = `${asked} has no worker, and none is started for callers: ${start.text}`;
    return { ...again('no_worker', message), retry_after_seconds: start.retry_after_seconds };
  }
  if (start) {
    const message = `no worker for ${asked} was ready within the time that the request could wait (${start.text})`;
    const refusal = again(
      'no_worker',
      `${message}: ${retryOr(job, 'wait longer with the header X-Queue-Wait: 900')}`,
    );
    return job.start_by === null ? refusal : { ...refusal, was_starting: true };
  }
  const told = core.starts.of(config_id);
  const others = told ? startedFor(core, told) : [];
  if (others.length > 0) {
    const models = listNames(others.flatMap(({ models }) => models));
    const message = `${asked} is not served by the workers of the pool "${config_id}"; they serve ${models}`;
    return { kind: 'refused', reason: 'unknown_model', message, retry_after_seconds: 0 };
  }
  return again(
    'no_worker',
    model === null
      ? `no worker is known yet: start one${saidHowLong(job) ? '' : ', or wait for it with the header X-Queue-Wait: 30'}`
      : `no worker for ${asked} is connected at the moment: ${retryOr(job, 'wait for one with the header X-Queue-Wait: 30')}`,
  );
}

/** Says whether the caller stated how long it waits; its rejection then need not suggest that. */
function saidHowLong({ waits_for_start }: WaitingJob): boolean {
  return !waits_for_start;
}

function retryOr(job: WaitingJob, waiting: string): string {
  return saidHowLong(job) ? 'retry' : `retry, or ${waiting}`;
}

/** Lists the models that connected workers serve: other names do not help a caller that asks for a model. */
function servedNow(core: Core): string {
  const serving = core.workers.all().filter((worker) => !isLeaving(worker));
  const names = serving.flatMap(({ models, session }) => (models.length > 0 ? models : [session.config_id]));
  if (names.length === 0)
    return 'no worker serves any model now: GET /v1/models lists what one is started for';
  const { table } = core.aliases;
  const aliases = Object.keys(table).filter((alias) =>
    targetsOf(table, alias).some((model) => names.includes(model)),
  );
  return `models: ${listNames([...names, ...aliases])}`;
}

function noSlot({ model }: WaitingJob): Rejection {
  const asked = shortName(model ?? 'this model');
  return again('no_slot', `every worker for "${asked}" stayed busy for as long as the request could wait`);
}

function tooLate({ model }: WaitingJob): Rejection {
  const asked = shortName(model ?? 'this model');
  return again(
    'deadline',
    `no worker for "${asked}" can answer within the request's deadline at its present load`,
  );
}

function again(reason: Rejection['reason'], message: string): Rejection {
  return { kind: 'refused', reason, message, retry_after_seconds: RETRY_AFTER_SECONDS };
}
