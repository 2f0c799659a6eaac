import { type JobProgress, type JobRef, limits, type Renew } from '../../protocol/index.ts';
import { claimOf } from '../attempts/claim.ts';
import { leaseSecondsFor } from '../attempts/lease.ts';
import { record } from '../events/ledger.ts';
import type { Worker } from '../state/live-fleet.ts';
import { type Core, due } from '../state/state.ts';
import { extendLease, findJob, type JobRow, setProgress } from '../store/jobs-table.ts';

/** Share of a lease: a renewal that finds less of it left came late. Renewing in time leaves twice as much. */
const LATE_SHARE = (1 - limits.RENEW_SHARE) / 2;

/** Extends every lease the worker lists; answers which it no longer holds. */
export function renew(core: Core, worker: Worker, frame: Renew): void {
  const lost = frame.jobs.filter((attempt) => !keep(core, worker, attempt));
  // The worker drops these without a word.
  for (const job of lost) core.fleet.freeSlot(worker.session.worker_id, job.job_id, job.fence_token);
  worker.connection.send(
    JSON.stringify({
      type: 'renewed',
      lease_seconds: leaseSecondsFor(core, worker),
      lost: lost.map((job) => job.job_id),
    }),
  );
}

/** Progress for people; for a base worker also the only renewal there is. */
export function progress(core: Core, worker: Worker, frame: JobProgress): void {
  const row = findJob(core.sql, frame.job_id);
  if (row === null) return;
  // The base SDK says 0 where its caller gives no token.
  const fence = frame.fence_token === 0 && !worker.session.extended ? row.fence_token : frame.fence_token;
  if (claimOf(row, worker, { fence_token: fence }) !== 'held') return;
  extend(core, worker, row);
  let { progress = null, status_message = null } = frame;
  if (row.progress === null && row.status_message === null) {
    record(core, row, 'started', status_message);
    // A sign of life that says nothing more: seen once, like any other.
    if (status_message === null) progress ??= 0;
  }
  setProgress(core.sql, frame.job_id, fence, progress, status_message);
}

/** Whether the attempt is still this worker's own; if it has a lease, that is extended. */
function keep(core: Core, worker: Worker, attempt: JobRef): boolean {
  const transient = core.transients.get(attempt.job_id);
  // Jobs in memory have no lease.
  if (transient) return claimOf(transient, worker, attempt) === 'held';
  const row = findJob(core.sql, attempt.job_id);
  const claim = claimOf(row, worker, attempt);
  if (row !== null && claim === 'held') extend(core, worker, row);
  return claim === 'held' || claim === 'settled_by_it' || claim === 'unknown';
}

function extend(core: Core, worker: Worker, row: JobRow): void {
  const leaseMs = leaseSecondsFor(core, worker) * 1000;
  const leftMs = (row.lease_expires_at ?? 0) - core.now();
  if (leftMs < leaseMs * LATE_SHARE)
    record(core, row, 'renewed_late', `${leftMs / 1000} s were left of the lease`);
  const expiresAt = core.now() + leaseMs;
  extendLease(core.sql, row.id, row.fence_token, worker.session.worker_id, expiresAt);
  due(core, expiresAt);
}
