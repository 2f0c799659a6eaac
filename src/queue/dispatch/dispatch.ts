import { closeIfHalfOpen } from '../attempts/connection.ts';
import type { Job, WaitingJob } from '../job.ts';
import type { Core } from '../state/state.ts';
import { freeSlots, mayRun, type Worker } from '../state/worker.ts';
import { moved, renamed } from './aliased-jobs.ts';
import { MOST_LOOKED_AT, WANTS_NOTHING, type Wants } from './choose.ts';
import { firstJobs, otherModels } from './fair-order.ts';
import { SCORERS } from './scorers.ts';
import { send } from './send.ts';

/**
 * Decides which worker runs which job next. One pass at the end of every command looks at what the command freed or
 * made ready, so that between events no slot is free while a job that fits it is ready. A new slot or job thus need not
 * be compared with the rest.
 * @returns waiting jobs for which this pass found no slot
 */
export function dispatch(core: Core): WaitingJob[] {
  let waiting: WaitingJob[] = [];
  SCORERS.reopen(core);
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
  const isWilling = (worker: Worker) => worker.session.config_id === configId && !unwilling.has(worker);
  for (;;) {
    const worker = chooseLive(core, isWilling);
    if (!worker) return;
    const next = nextFor(core, worker);
    if (next !== null) {
      placeNext(core, worker, next, isWilling);
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
  const mayHave = (worker: Worker) =>
    mayRun(worker, job.model) &&
    SCORERS.isOpen(core, worker.session.config_id, job.priority) &&
    SCORERS.fits(core, worker, job);
  for (;;) {
    const worker = chooseLive(core, mayHave, job);
    if (!worker) {
      SCORERS.unplaced(core, job);
      return false;
    }
    if (SCORERS.isDeclined(core, worker, job)) continue;
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
  mayHave: (worker: Worker) => boolean,
  wants: Wants = WANTS_NOTHING,
): Worker | null {
  for (;;) {
    const worker = SCORERS.chooseWorker(core.workers.all(), mayHave, wants);
    if (worker === null || !closeIfHalfOpen(core, worker)) return worker;
  }
}

/** Gives a job that the least loaded worker of a pool may run to the one that suits it best. */
function placeNext(core: Core, least: Worker, job: Job, isWilling: (worker: Worker) => boolean): void {
  const mayHave = (worker: Worker) =>
    worker === least || (isWilling(worker) && serves(core, worker, job) && SCORERS.fits(core, worker, job));
  const worker = SCORERS.mayDiffer(least, job) ? (chooseLive(core, mayHave, job) ?? least) : least;
  sendOrPass(core, worker, job);
}

/** Says whether a worker of the job's pool serves the model that the job names. */
function serves(core: Core, worker: Worker, job: Job): boolean {
  if (job.mode === 'waiting') return mayRun(worker, job.model);
  return job.model === null || !otherModels(core, worker).has(job.model);
}

/**
 * Sends a job to the worker. If the job is left to other workers, or admission holds it back after all, it
 * makes room for the next.
 */
function sendOrPass(core: Core, worker: Worker, job: Job): void {
  if (SCORERS.isDeclined(core, worker, job)) return;
  if (job.mode === 'stored') {
    if (moved(core, job) || renamed(core, worker, job) || !core.stored.admit(job)) return;
  }
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
  mayBegin: (priority: number) => boolean,
): WaitingJob {
  const rivals = SCORERS.rivalsOf(worker, core.workers.all());
  if (!SCORERS.isPassedOver(first, worker, rivals)) return first;
  const line = firstJobs(core, worker, MOST_LOOKED_AT, mayBegin) as WaitingJob[];
  return SCORERS.chooseWaiting(line, worker, rivals);
}

/** Returns the next job for a worker; null if the worker may begin none. */
function nextFor(core: Core, worker: Worker): Job | null {
  // Skips priorities that may not begin, as is the case of batch work after every line of a batch.
  const mayBegin = (priority: number) => SCORERS.isOpen(core, worker.session.config_id, priority);
  const [first] = firstJobs(core, worker, 1, mayBegin);
  if (first === undefined) return null;
  let next = first;
  if (SCORERS.fits(core, worker, first)) {
    if (first.mode === 'stored' || !SCORERS.mayDiffer(worker, first)) return first;
    next = suitedBest(core, worker, first, mayBegin);
    if (next === first || SCORERS.fits(core, worker, next)) return next;
  }
  SCORERS.unplaced(core, next);
  return null;
}
