import type { PoolStart } from '../../fleet/rpc.ts';
import { listNames, shortName } from '../../protocol/index.ts';
import { endUnfinished } from '../attempts/end.ts';
import { timePassed } from '../attempts/time-passed.ts';
import { emit } from '../events/projection.ts';
import { type RequestAnswer, type WaitingLineView, workerNamed } from '../rpc.ts';
import type { WaitingJob } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { isLeaving, mayRun, type Worker } from '../state/worker.ts';
import { hasWaited, refusal } from './over-limit.ts';

/** Decides whether a job may wait and until when, and words the answer to its caller when it may not. */

/** The `Retry-After` of answers that are worth retrying, s. */
export const RETRY_AFTER_SECONDS = 5;

/** The number of jobs that wait, including the one in question, and the most that may. */
interface Depth {
  ofPool: number;
  ofTenant: number;
  most: number;
  mostOfTenant: number;
}

/**
 * Checks the bounds on the jobs of each pool and each tenant.
 * @param what the words for the pool and for the tenant: `jobs of pool "a" are pending`
 * @returns the bound that is exceeded, in words, or null
 */
export function fullness(
  { ofPool, ofTenant, most, mostOfTenant }: Depth,
  tenant: string | null,
  what: { pool: string; tenant: string },
): string | null {
  if (ofPool > most) return `the queue is full: ${most} ${what.pool}`;
  if (tenant === null || ofTenant <= mostOfTenant) return null;
  return `the queue is full for the token "${tenant}": ${mostOfTenant} ${what.tenant}`;
}

/** Returns how much of a limit one tenant may take: at least one, so that a small share shuts no tenant out. */
export function mostOfTenant(limit: number, { tenant_share }: Core['settings']): number {
  return Math.max(1, Math.floor(limit * tenant_share));
}

/**
 * Handles a job that found no slot at once: it waits if a worker may still take it and there is room; otherwise it is
 * rejected.
 */
export function waitOrReject(core: Core, job: WaitingJob): void {
  const workers = workersFor(core, job.model);
  if (rejectIfUnserviceable(core, job, workers)) return;
  const full = job.is_admitted ? null : (waitingFullness(core, job) ?? bytesFullness(core, job));
  if (full !== null) {
    reject(core, job, again('queue_full', full));
    return;
  }
  job.is_admitted = true;
  core.waiting.line.nextRejection.lower(rejectedAt(core, job, workers));
}

/** Rejects waiting jobs whose time is over. */
export function rejectOverdue(core: Core): void {
  const next = nextRejection(core);
  if (next === null || core.now() < next) return;
  for (const [model, jobs] of core.waiting.line.byModel()) {
    const workers = workersFor(core, model);
    for (const job of jobs) rejectIfUnserviceable(core, job, workers);
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
      for (const job of jobs) next = Math.min(next, rejectedAt(core, job, workers));
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
  else if (job.held !== null) reject(core, job, refusal(core, job, job.held));
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
  return Math.min(slotBy, Math.max(job.worker_by, backBy, startBy));
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

function waitingFullness(core: Core, { config_id, model, tenant }: WaitingJob): string | null {
  const { line } = core.waiting;
  const depth = {
    ofPool: line.ofPool(config_id),
    ofTenant: tenant === null ? 0 : line.ofTenant(tenant),
    most: core.settings.max_waiting,
    mostOfTenant: mostOfTenant(core.settings.max_waiting, core.settings),
  };
  return fullness(depth, tenant, {
    pool: `requests for "${shortName(model ?? 'any model')}" wait for a free slot already`,
    tenant: 'requests of it wait for a free slot already',
  });
}

function bytesFullness({ waiting, settings }: Core, { tenant }: WaitingJob): string | null {
  const { max_waiting_bytes } = settings;
  const ofTenant = mostOfTenant(max_waiting_bytes, settings);
  if (waiting.line.bytes > max_waiting_bytes) {
    return `the queue is full: the requests that wait for a free slot may have ${max_waiting_bytes} bytes in all`;
  }
  if (tenant !== null && waiting.line.bytesOfTenant(tenant) > ofTenant) {
    return `the queue is full for the token "${tenant}": its requests that wait for a free slot may have ${ofTenant} bytes in all`;
  }
  return null;
}

type Rejection = Extract<RequestAnswer, { kind: 'refused' }>;

function noWorker(core: Core, job: WaitingJob): Rejection {
  const { model, config_id } = job;
  const start = startOf(core, job);
  const alone = workerNamed(model);
  if (alone !== null) {
    const message = `the worker "${shortName(alone)}", which has what is asked for, is not connected any more`;
    return { kind: 'refused', reason: 'worker_gone', message, retry_after_seconds: 0 };
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
    return again('no_worker', `${message}: ${retryOr(job, 'wait longer with the header X-Queue-Wait: 900')}`);
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
      ? `no worker is known yet: start one${hasWaited(job) ? '' : ', or wait for it with the header X-Queue-Wait: 30'}`
      : `no worker for ${asked} is connected at the moment: ${retryOr(job, 'wait for one with the header X-Queue-Wait: 30')}`,
  );
}

function retryOr(job: WaitingJob, waiting: string): string {
  return hasWaited(job) ? 'retry' : `retry, or ${waiting}`;
}

/**
 * Lists the models that connected workers serve: a name that none of them serves does not help who asks for another.
 */
function servedNow(core: Core): string {
  const serving = core.workers.all().filter((worker) => !isLeaving(worker));
  const names = serving.flatMap(({ models, session }) => (models.length > 0 ? models : [session.config_id]));
  if (names.length === 0)
    return 'no worker serves any model now: GET /v1/models lists what one is started for';
  return `models: ${listNames(new Set(names))}`;
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
