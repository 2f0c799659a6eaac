import type { Job } from '../job.ts';
import type { Core } from '../state/state.ts';
import { type Canary, mayRun, usableSlots, type Worker } from '../state/worker.ts';
import type { Scorer } from './choose.ts';

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
      if (!canary.holdsBack || !isDue(canary)) continue;
      canary.holdsBack = false;
      for (const worker of core.workers.all()) if (worker.canary === canary) core.ready.worker(worker);
      core.ready.pool(canary.config_id);
    }
  },
};

/** Says whether the job is left to the other versions, which have had too few requests for one more here. */
function isHeldBack(core: Core, worker: Worker, job: Job): boolean {
  const { canary } = worker;
  if (canary === null || !isOf(worker, canary) || isDue(canary) || isRest(job)) return false;
  const hasOthers = core.workers
    .all()
    .some((other) => other.canary === canary && !isOf(other, canary) && takes(other, job));
  if (hasOthers) canary.holdsBack = true;
  return hasOthers;
}

function takes(worker: Worker, job: Job): boolean {
  return usableSlots(worker) > 0 && !worker.declined.has(job.id) && mayRun(worker, job.model);
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
