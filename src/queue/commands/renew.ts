import { bounds, type JobProgress, type JobRef, type Renew } from '../../protocol/index.ts';
import { duration } from '../../protocol/text.ts';
import { claimOf } from '../attempts/claim.ts';
import { leaseSecondsFor } from '../attempts/connection.ts';
import { emit } from '../events/projection.ts';
import type { Job } from '../job.ts';
import { type Core, findJob, storeOf } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';

/** A renewal is late if less than this share of the lease is left; a renewal in time leaves twice as much. */
const LATE_SHARE = (1 - bounds.RENEW_SHARE) / 2;

/** Extends every lease that the worker lists, and answers which jobs it no longer holds. */
export function renew(core: Core, worker: Worker, frame: Renew): void {
  const lost = frame.jobs.filter((attempt) => !keep(core, worker, attempt)).map(refOf);
  // The worker drops these jobs without reporting it.
  for (const job of lost) core.workers.freeSlot(worker.session.worker_id, job.job_id, job.fence_token);
  const again = frame.jobs.filter((attempt) => !addPart(core, worker, attempt)).map(refOf);
  worker.connection.send({
    type: 'renewed',
    lease_seconds: leaseSecondsFor(core, worker),
    lost,
    ...(again.length > 0 && { again }),
  });
}

function refOf({ job_id, fence_token }: JobRef): JobRef {
  return { job_id, fence_token };
}

/**
 * Adds a part of the answer that the worker sent beside a renewal.
 * @returns false if the parts before this one are unknown
 */
function addPart(core: Core, worker: Worker, { part, timing, ...attempt }: Renew['jobs'][number]): boolean {
  const job = part === undefined ? null : core.stored.find(attempt.job_id);
  if (part === undefined || job === null || claimOf(job, worker, attempt) !== 'held') return true;
  return core.stored.partials.add(job, part, timing);
}

/** Stores progress for people to see. It is a base worker's only way to renew. */
export function progress(core: Core, worker: Worker, frame: JobProgress): void {
  const job = core.stored.find(frame.job_id);
  if (job === null) return;
  // The base SDK sends 0 where its caller gives no token.
  const isUntold = profileOf(worker).sendsZeroFence && frame.fence_token === 0;
  const fence_token = isUntold ? job.fence_token : frame.fence_token;
  if (claimOf(job, worker, { fence_token }) !== 'held') return;
  extend(core, worker, job);
  let { progress = null, status_message = null } = frame;
  if (job.progress === null && job.status_message === null) {
    emit(core, job, 'started', status_message);
    // A report with neither progress nor message is stored as progress 0, so that the next one does not count as a
    // start.
    if (status_message === null) progress ??= 0;
  }
  core.stored.progress(job, progress, status_message);
}

/** Extends the attempt's lease if the worker still holds it. @returns whether the worker keeps the attempt */
function keep(core: Core, worker: Worker, attempt: JobRef): boolean {
  const job = findJob(core, attempt.job_id);
  const claim = claimOf(job, worker, attempt);
  if (job !== null && claim === 'held') extend(core, worker, job);
  return claim === 'held' || claim === 'settled_by_it' || claim === 'unknown';
}

function extend(core: Core, worker: Worker, job: Job): void {
  const leaseMs = leaseSecondsFor(core, worker) * 1000;
  if (job.lease_expires_at !== null) {
    const leftMs = job.lease_expires_at - core.now();
    if (leftMs < leaseMs * LATE_SHARE)
      emit(core, job, 'renewed_late', `${duration(leftMs)} were left of the lease`);
  }
  storeOf(core, job).extend(job, worker.session.worker_id, core.now() + leaseMs);
}
