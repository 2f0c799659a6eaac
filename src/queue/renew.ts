import { type JobProgress, limits, type Renew } from '../protocol/index.ts';
import { type Core, due } from './core.ts';
import { fillWorker, leaseSecondsFor } from './dispatch.ts';
import type { Worker } from './fleet.ts';
import { record } from './ledger.ts';
import { isSettledByWorker } from './settle.ts';
import { extendLease, findJob, setProgress } from './tables.ts';

/** Share of a lease: a renewal that finds less of it left came late. Renewing in time leaves twice as much. */
const LATE_SHARE = (1 - limits.RENEW_SHARE) / 2;

/** Extends every lease the worker lists; answers which it no longer holds. */
export function renew(core: Core, worker: Worker, frame: Renew): void {
  const lost = frame.jobs.filter((job) => !extend(core, worker, job.job_id, job.fence_token));
  // The worker drops these without a word.
  for (const job of lost) core.fleet.vacate(worker.session.worker_id, job.job_id, job.fence_token);
  worker.connection.send(
    JSON.stringify({
      type: 'renewed',
      lease_seconds: leaseSecondsFor(core, worker),
      lost: lost.map((job) => job.job_id),
    }),
  );
  if (lost.length > 0) fillWorker(core, worker);
}

/** Progress for people; for a base worker also the only renewal there is. */
export function progress(core: Core, worker: Worker, frame: JobProgress): void {
  const row = findJob(core.sql, frame.job_id);
  if (row?.state !== 'leased' || row.worker_id !== worker.session.worker_id) return;
  // The base SDK says 0 where its caller gives no token.
  const fence = frame.fence_token === 0 && !worker.session.extended ? row.fence_token : frame.fence_token;
  if (!extend(core, worker, frame.job_id, fence)) return;
  let { progress = null, status_message = null } = frame;
  if (row.progress === null && row.status_message === null) {
    record(core, row, 'started', status_message);
    // A sign of life that says nothing more: seen once, like any other.
    if (status_message === null) progress ??= 0;
  }
  setProgress(core.sql, frame.job_id, fence, progress, status_message);
}

function extend(core: Core, worker: Worker, jobId: string, fenceToken: number): boolean {
  // Transient jobs have no lease, and one taken over after a restart has no record at all: its relay knows
  // whether its caller still waits, and cancels it if not.
  const transient = core.transients.get(jobId);
  if (transient) return transient.fence_token === fenceToken;
  const row = findJob(core.sql, jobId);
  if (!row) return true;
  if (row.fence_token !== fenceToken) return false;
  // Settled by this attempt, its acknowledgement on the way: not lost.
  if (isSettledByWorker(row)) return true;
  if (row.state !== 'leased' || row.worker_id !== worker.session.worker_id) return false;
  const leaseMs = leaseSecondsFor(core, worker) * 1000;
  const leftMs = (row.lease_expires_at ?? 0) - core.now();
  if (leftMs < leaseMs * LATE_SHARE)
    record(core, row, 'renewed_late', `${leftMs / 1000} s were left of the lease`);
  const expiresAt = core.now() + leaseMs;
  extendLease(core.sql, jobId, fenceToken, worker.session.worker_id, expiresAt);
  due(core, expiresAt);
  return true;
}
