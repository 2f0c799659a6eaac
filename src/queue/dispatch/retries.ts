import type { Job, WaitingJob } from '../job.ts';
import type { Core } from '../state/state.ts';
import { awaitsTurn, mayRun, usableSlots, type Worker } from '../state/worker.ts';
import { ADAPTER, modelCost } from './adapters.ts';
import type { Scorer } from './choose.ts';
import { mayBeGiven } from './equals.ts';

/**
 * Decides where a request goes after an attempt at it failed: to a worker other than before, while one fits. A worker
 * that fails at once is always the least loaded one, so it would get all attempts. The gateway learns over the relay
 * that an answer broke off, and the queue learns it from another socket, so the gateway may ask again first.
 */

/** A request waits this many ms for a slot of another worker before the worker that failed may have it again. */
export const ELSEWHERE_WITHIN_MS = 5000;

/** A request waits this many ms for the report of the worker that failed; none comes if only the relay was lost. */
export const HEARD_WITHIN_MS = 1000;

/** The queue looks again after this many ms at requests that it kept from a worker: the other workers may be gone. */
const LOOK_AGAIN_MS = 1000;

export const RETRIES: Scorer = {
  fits: (core, worker, job) => mayHaveAgain(core, job, worker),
  prefers: (worker, { failed_at, model }) =>
    failed_at === undefined ||
    failed_at.length === 0 ||
    (isElsewhere(worker, { failed_at, model }) && !awaitsTurn(worker)),
  unplaced: (core, job) => {
    if (job.mode === 'waiting') holdRetry(core, job);
  },
  timed: { dueAt: ({ ready }) => ready.retriesAt, run: placeRetries },
};

/** Says whether the job may be given to this worker now, as far as its earlier attempts go. */
export function mayHaveAgain(core: Core, job: Job, worker: Worker): boolean {
  return job.mode === 'stored' || mayHaveAgainFrom(core, job, worker) <= core.now();
}

/**
 * Returns from when on the worker may have the job again, epoch ms. A wait is left out if it would last until the
 * caller waits no longer.
 */
function mayHaveAgainFrom(core: Core, job: WaitingJob, worker: Worker): number {
  if (!job.failed_at.includes(worker.session.worker_id)) return 0;
  const waits: number[] = [];
  if (core.workers.all().some((other) => isBetter(other, worker, job) && mayBeGiven(core, other, job)))
    waits.push(ELSEWHERE_WITHIN_MS);
  if (worker.running.has(job.id)) waits.push(HEARD_WITHIN_MS);
  return Math.max(0, ...waits.map((ms) => job.created_at + ms).filter((from) => from < job.slot_by));
}

/** Says whether the job takes a free slot of this worker rather than one of a worker that failed. */
function isElsewhere(worker: Worker, job: Pick<WaitingJob, 'failed_at' | 'model'>): boolean {
  return !job.failed_at.includes(worker.session.worker_id) && modelCost(worker, job.model) < ADAPTER.failed;
}

/** Whether the job is to be tried at this worker, now or when a slot frees, rather than again at the one that failed. */
function isBetter(worker: Worker, failed: Worker, job: WaitingJob): boolean {
  return (
    isElsewhere(worker, job) &&
    usableSlots(worker) > 0 &&
    mayRun(worker, job.model) &&
    !worker.declined.has(job.id) &&
    // A sleeping worker is no better than one that failed awake: jobs wait for an engine that is awake (waking.ts).
    (!awaitsTurn(worker) || awaitsTurn(failed))
  );
}

/**
 * Notes a retry that found no slot. The queue looks at it again when a worker that failed may have it, and soon, since
 * a worker that leaves does not offer its slots.
 */
function holdRetry(core: Core, job: WaitingJob): void {
  if (job.failed_at.length === 0) return;
  const { ready, workers } = core;
  const now = core.now();
  const failed = job.failed_at.map((id) => workers.byId(id)).filter((worker) => worker !== null);
  const times = failed.map((worker) => mayHaveAgainFrom(core, job, worker)).filter((from) => from > now);
  ready.retries.add(job);
  ready.retriesAt = Math.min(ready.retriesAt ?? Number.POSITIVE_INFINITY, now + LOOK_AGAIN_MS, ...times);
}

/** Looks for a slot again for the retries that found none. */
function placeRetries({ ready, now }: Core): void {
  if (ready.retriesAt === null || ready.retriesAt > now()) return;
  ready.retriesAt = null;
  for (const job of ready.retries) ready.job(job);
  ready.retries.clear();
}
