import { closeIfHalfOpen } from '../attempts/half-open.ts';
import { isBatchWork, type Job, type WaitingJob } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { awaitsTurn, freeSlots, mayRun, type Worker } from '../state/worker.ts';
import { isAnywhere, WANTS_NOTHING, type Wants } from './affinity.ts';
import { hasRoomForBatch, interactiveWorkWaits, mayBeginBatchWork, poolSlots } from './batch-work.ts';
import { chooseWaiting, chooseWorker, isPassedOver, rivalsOf } from './choose.ts';
import { firstJobs } from './fair-order.ts';
import { otherModels } from './other-models.ts';
import { holdRetry, isElsewhere, mayHaveAgain } from './retries.ts';
import { send } from './send.ts';
import { isLeftToOthers } from './suitability.ts';
import { holdForAwake, mayWake } from './waking.ts';
import { MOST_LOOKED_AT } from './warmth.ts';

/**
 * Decides who runs what next, in one pass at the end of every command over what the command freed or made ready, so
 * that between events no slot is free while a job that fits it is ready. So a new slot or job need not be compared with
 * the rest.
 * @returns waiting jobs for which this pass found no slot
 */
export function dispatch(core: Core): WaitingJob[] {
  let waiting: WaitingJob[] = [];
  for (const configId of core.ready.heldBack) {
    if (hasRoomForBatch(poolSlots(core, configId))) core.ready.pool(configId);
  }
  // A job that cannot be sent ends at once and frees its slot again.
  for (let open = core.ready.take(); open !== null; open = core.ready.take()) {
    for (const configId of open.pools) fillPool(core, configId);
    for (const worker of open.workers) fillWorker(core, worker);
    for (const job of open.jobs) if (!placeWaiting(core, job)) waiting.push(job);
  }
  if (waiting.length > 0) waiting = waiting.filter((job) => core.waiting.isPending(job));
  return waiting;
}

/** Gives a worker jobs until its slots or the jobs are used up. */
function fillWorker(core: Core, worker: Worker): void {
  if (core.workers.byId(worker.session.worker_id) !== worker) return;
  while (freeSlots(worker) > 0) {
    const next = nextFor(core, worker);
    if (next === null) return;
    sendOrPass(core, worker, next);
  }
}

/** Spreads ready jobs over the workers of a pool. */
function fillPool(core: Core, configId: string): void {
  /** The workers that declined all that is ready, or serve no requested model. */
  const unwilling = new Set<Worker>();
  const fits = (worker: Worker) => worker.session.config_id === configId && !unwilling.has(worker);
  for (;;) {
    const worker = chooseLive(core, fits);
    if (!worker) return;
    const next = nextFor(core, worker);
    if (next !== null) {
      placeNext(core, worker, next, fits);
      continue;
    }
    const isForAnother = worker.declined.size > 0 || otherModels(core, worker).size > 0;
    if (!isForAnother && core.waiting.line.size === 0) return;
    unwilling.add(worker);
  }
}

/** Sends a waiting job to a worker with a free slot. @returns whether the job no longer waits */
function placeWaiting(core: Core, job: WaitingJob): boolean {
  if (!core.waiting.isPending(job)) return true;
  if (job.held !== null) return false;
  const mayBegin = (worker: Worker) => !isBatchWork(job) || mayBeginBatchWork(core, worker);
  const fits = (worker: Worker) =>
    mayRun(worker, job.model) &&
    !worker.declined.has(job.id) &&
    mayHaveAgain(core, job, worker) &&
    mayBegin(worker) &&
    mayWake(core, job, worker);
  const fitsElsewhere = (worker: Worker) => isElsewhere(worker, job) && !awaitsTurn(worker) && fits(worker);
  for (;;) {
    const elsewhere = job.failed_at.length > 0 ? chooseLive(core, fitsElsewhere, job) : null;
    const worker = elsewhere ?? chooseLive(core, fits, job);
    if (!worker) {
      holdForAwake(core, job);
      holdRetry(core, job);
      if (isBatchWork(job) && !hasRoomForBatch(poolSlots(core, job.config_id)))
        core.ready.heldBack.add(job.config_id);
      return false;
    }
    if (isLeftToOthers(core, worker, job)) continue;
    send(core, worker, job);
    return true;
  }
}

/**
 * Chooses a worker, closing the sockets of those that are not heard any more: a job given to one would wait for its
 * lease to run out.
 */
function chooseLive(
  core: Core,
  fits: (worker: Worker) => boolean,
  wants: Wants = WANTS_NOTHING,
): Worker | null {
  for (;;) {
    const worker = chooseWorker(core.workers.all(), fits, wants);
    if (worker === null || !closeIfHalfOpen(core, worker)) return worker;
  }
}

/** Gives a job that the least loaded worker of a pool may run to the one that suits it best. */
function placeNext(core: Core, least: Worker, job: Job, fits: (worker: Worker) => boolean): void {
  const mayHaveIt = (worker: Worker) =>
    fits(worker) && !worker.declined.has(job.id) && mayHave(core, worker, job);
  const worker = isAnywhere(least, job) ? least : (chooseLive(core, mayHaveIt, job) ?? least);
  sendOrPass(core, worker, job);
}

function mayHave(core: Core, worker: Worker, job: Job): boolean {
  if (job.mode === 'waiting') return mayRun(worker, job.model) && mayHaveAgain(core, job, worker);
  return job.model === null || !otherModels(core, worker).has(job.model);
}

/**
 * Sends a job to the worker. If the job is left to other workers, or admission holds it back after all, it
 * makes room for the next.
 */
function sendOrPass(core: Core, worker: Worker, job: Job): void {
  if (isLeftToOthers(core, worker, job) || (job.mode === 'stored' && !core.stored.admit(job))) return;
  send(core, worker, job);
}

/**
 * Returns the first job, unless it does better at another worker; only then are the waiting jobs behind it considered,
 * as there may be as many as tenants.
 */
function suitedBest(
  core: Core,
  worker: Worker,
  first: WaitingJob,
  isOpen: (priority: number) => boolean,
): WaitingJob {
  const rivals = rivalsOf(worker, core.workers.all());
  if (!isPassedOver(first, worker, rivals)) return first;
  return chooseWaiting(firstJobs(core, worker, MOST_LOOKED_AT, isOpen) as WaitingJob[], worker, rivals);
}

/** Returns the next job for a worker; null if the worker may begin none. */
function nextFor(core: Core, worker: Worker): Job | null {
  const { config_id } = worker.session;
  let isHeldBack = false;
  // Skips the jobs of a priority that is batch work without room, as is the case after every line of a batch.
  const mayBegin = (priority: number) => {
    isHeldBack = isBatchWork({ priority }) && !hasRoomForBatch(poolSlots(core, config_id));
    return !isHeldBack;
  };
  const [first] = firstJobs(core, worker, 1, mayBegin);
  // `mayBegin` has just checked that there is room.
  if (first !== undefined && isBatchWork(first)) isHeldBack = interactiveWorkWaits(core, worker);
  if (isHeldBack) core.ready.heldBack.add(config_id);
  if (first === undefined || isHeldBack) return null;
  const isIndifferent = first.mode === 'stored' || isAnywhere(worker, first);
  const next = isIndifferent ? first : suitedBest(core, worker, first, mayBegin);
  if (mayWake(core, next, worker)) return next;
  holdForAwake(core, next);
  return null;
}
