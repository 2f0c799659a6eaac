import { duration } from '../../protocol/duration.ts';
import type { JobRelease } from '../../protocol/index.ts';
import { claimOf } from '../attempts/claim.ts';
import { releaseAttempt } from '../attempts/retry.ts';
import type { Job } from '../state/job.ts';
import { type Core, findJob } from '../state/state.ts';
import { timesOf } from '../state/times.ts';
import { isLeaving, type Worker } from '../state/worker.ts';

/** A worker that releases a job without leaving does not get the job back for this long, ms. */
const RELEASED_DELAY_MS = 1000;
/** A job whose deadline no worker can meet is offered again after this many ms, as long as there is time. */
const DECLINED_BY_ALL_DELAY_MS = 5000;
/** The most declined jobs that are remembered of one worker; they are forgotten when its load eases. */
const MOST_DECLINED = 1000;

/** Takes back an unfinished job that the worker releases: it becomes pending again, and no attempt is charged. */
export function release(core: Core, worker: Worker, frame: JobRelease): void {
  const { job_id, fence_token, reason, timing } = frame;
  if (reason === 'deadline') decline(worker, job_id);
  if (reason === 'engine_restarting') worker.prefixes.clear();
  const job = findJob(core, job_id);
  if (job === null) core.limits.endResumed(job_id);
  if (job !== null && claimOf(job, worker, frame) === 'held') {
    if (reason === 'deadline') offerElsewhere(core, job);
    else {
      const delayMs = reason === 'draining' ? 0 : RELEASED_DELAY_MS;
      // The times of a waiting job are reported by the gateway when it requests the rest of the answer.
      const timed = timing && job.mode === 'stored' ? { ...job, ...timesOf(job, core.now(), timing) } : job;
      releaseAttempt(core, timed, reason, { reason, delayMs, partial: frame.partial });
    }
  }
  core.workers.freeSlot(worker.session.worker_id, job_id, fence_token);
  // The gateway may have learned of the release from the relay and requested the job again already: this worker may
  // have been the last that could run it.
  const again = core.waiting.find(job_id);
  if (again) core.ready.job(again);
}

function decline(worker: Worker, jobId: string): void {
  if (worker.declined.size >= MOST_DECLINED) worker.declined.clear();
  worker.declined.add(jobId);
}

/**
 * Offers the job to a worker of the pool that has not declined it, once one has a slot. If all have declined it, it is
 * offered to all of them later, or its waiting caller is told so.
 */
function offerElsewhere(core: Core, job: Job): void {
  const workers = core.workers.all().filter(({ session }) => session.config_id === job.config_id);
  const left = workers.filter((worker) => !isLeaving(worker) && !worker.declined.has(job.id));
  if (left.length > 0 || job.mode === 'waiting') {
    releaseAttempt(core, job, 'deadline: the worker cannot meet it at its load', { reason: 'deadline' });
    return;
  }
  for (const { declined } of workers) declined.delete(job.id);
  const again = `offered again in ${duration(DECLINED_BY_ALL_DELAY_MS)}`;
  const why = `deadline: no connected worker can meet it at its load; ${again}`;
  releaseAttempt(core, job, why, { reason: 'deadline', delayMs: DECLINED_BY_ALL_DELAY_MS });
}
