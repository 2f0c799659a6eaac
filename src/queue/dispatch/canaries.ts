import { sooner } from '../events/projection.ts';
import type { Job } from '../job.ts';
import type { Core } from '../state/state.ts';
import { type Canary, mayRun, usableSlots, type Worker } from '../state/worker.ts';
import type { Scorer } from './choose.ts';
import { mayHaveAgain } from './retries.ts';

/** The queue looks again after this many ms at what it held back: the others may take no more jobs by then. */
const LOOK_AGAIN_MS = 1000;

/**
 * Gives a pool's new version a part of the pool's requests while it is tried: no more, however many of its slots are
 * free, and no less as long as it has one. The first request goes to it, so that it is never judged by none.
 */
export const CANARIES: Scorer = {
  fits: (core, worker, job) => !isHeldBack(core, worker, job),
  prefers: (worker) => worker.canary === null || isOf(worker, worker.canary) === isDue(worker.canary),
  given: (worker, job) => {
    const { canary } = worker;
    if (canary === null || isRest(job)) return;
    canary.requests += 1;
    if (isOf(worker, canary)) canary.given += 1;
  },
  reopen: (core) => {
    for (const canary of core.workers.canaries) {
      const { looksAt } = canary;
      if (looksAt === null || (looksAt > core.now() && !isDue(canary))) continue;
      canary.looksAt = null;
      for (const worker of core.workers.all()) if (worker.canary === canary) core.ready.worker(worker);
      core.ready.pool(canary.config_id);
    }
  },
  // The dispatch pass after it reopens what is due.
  timed: { dueAt: nextLook, run: () => {} },
};

function nextLook({ workers }: Core): number | null {
  let next: number | null = null;
  for (const { looksAt } of workers.canaries) next = sooner(next, looksAt);
  return next;
}

/** Says whether the job is left to the other versions, which have had too few requests for one more here. */
export function isHeldBack(core: Core, worker: Worker, job: Job): boolean {
  const { canary } = worker;
  if (canary === null || !isOf(worker, canary) || isDue(canary) || isRest(job)) return false;
  const hasOthers = core.workers.has(
    (other) => other.canary === canary && !isOf(other, canary) && takes(core, other, job),
  );
  if (hasOthers) canary.looksAt ??= core.now() + LOOK_AGAIN_MS;
  return hasOthers;
}

/** Says whether the worker takes the job, now or when a slot frees: not soon if it has failed with it. */
function takes(core: Core, worker: Worker, job: Job): boolean {
  return (
    usableSlots(worker) > 0 &&
    !worker.declined.has(job.id) &&
    mayRun(worker, job.model) &&
    mayHaveAgain(core, job, worker)
  );
}

function isOf({ session }: Worker, { version }: Canary): boolean {
  return session.version === version;
}

/** Says whether the new version may have the pool's next request. */
function isDue({ given, requests, share }: Canary): boolean {
  return given < Math.ceil(share * (requests + 1));
}

/** Says whether the job is the rest of an answer, which goes where the answer can go on (equals.ts). */
function isRest(job: Job): boolean {
  return job.mode === 'waiting' && job.made_by !== null;
}
