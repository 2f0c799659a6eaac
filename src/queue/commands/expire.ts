import {
  closeExpired,
  closeHalfOpen,
  leaseRanOut,
  nextExpiry,
  nextHalfOpen,
} from '../attempts/connection.ts';
import {
  endUnfinished,
  failAttempt,
  MACHINE_TAKEN,
  releaseAttempt,
  revoke,
  timePassed,
} from '../attempts/end.ts';
import { stillConnectedMs, tellStillConnected } from '../events/fleet-events.ts';
import { ORPHANED, OVERDUE, type StoredJob, type WaitingJob } from '../job.ts';
import type { Core } from '../state/state.ts';
import { deadlinesDue, nextDue } from '../store/jobs-table.ts';
import { leasesDue } from '../store/leases-table.ts';
import { due } from '../store/ports.ts';
import { forgetSessions, nextToForget } from '../store/session-table.ts';
import { type OldJob, oldestSettled, oldestSettledAt } from '../store/settlements-table.ts';
import { SECOND_LOOK_MS } from './downtime.ts';

const DEADLINE_PASSED = 'the deadline passed before the job was done';

/**
 * Does the work of the alarm: expires leases and deadlines, ends retry delays, closes half-open sockets and those whose
 * tokens have expired, and forgets old jobs. An alarm fires at least once and may fire late or twice, so this checks
 * what is due now, whatever the alarm was set for.
 */
export function expire(core: Core): void {
  const now = core.now();
  closeHalfOpen(core);
  closeExpired(core);
  core.stored.wake();
  for (const job of deadlinesDue(core.sql, now)) {
    endUnfinished(core, job, 'expired', 'deadline', DEADLINE_PASSED);
  }
  for (const job of leasesDue(core.sql, now)) {
    if (job.lease_orphaned & OVERDUE) expireLease(core, job);
    // A renewal may still lie in its worker's socket: the queue may have stood still until now.
    else core.stored.postpone(job, now + SECOND_LOOK_MS, true);
  }
  core.alarm.clear();
  for (const next of [nextDue(core.sql), nextHalfOpen(core), nextExpiry(core)])
    if (next !== null) due(core, next);
  sweep(core);
}

/** Ends waiting jobs whose worker did not come back, or whose time is over: only memory knows of them. */
export function expireInMemory(core: Core): void {
  closeHalfOpen(core);
  const now = core.now();
  for (const job of core.waiting.all()) {
    if (job.state !== 'leased') continue;
    if (job.lease_expires_at !== null && job.lease_expires_at <= now) {
      const message = 'the worker disconnected and did not come back';
      failAttempt(core, job, { message, code: 'worker_died', retryable: true }, 'queue');
    } else if (isOverdue(job, now)) {
      endUnfinished(core, job, 'expired', 'deadline', timePassed(job, now));
    }
  }
  core.waiting.forgetLimits();
}

/** Ends requests whose attempt failed or was released and that the gateway did not ask for again. */
export function decideRequests({ requests, projections }: Core): void {
  for (const job of requests.takeDecided()) {
    const outcome = requests.isCallerGone(job.id) ? 'cancelled' : job.outcome;
    projections.onOther({ kind: 'decided', ...job, outcome });
  }
}

/**
 * Says whether the queue must end the job for its time. A worker whose answers a relay carries watches deadlines
 * itself, but knows of no time limit.
 */
function isOverdue({ reply, deadline_at, limit_at }: WaitingJob, now: number): boolean {
  if (limit_at !== null && limit_at <= now) return true;
  return reply !== null && deadline_at !== null && deadline_at <= now;
}

/**
 * Ends the lease of an overdue job. The attempt is charged unless the queue itself was down, since then the worker may
 * well still have the job, or the worker's machine was being taken away.
 */
function expireLease(core: Core, job: StoredJob): void {
  if (job.lease_orphaned & ORPHANED.byQueue) {
    releaseAttempt(core, job, 'the queue was down and the worker did not come back in time');
    return;
  }
  revoke(core, job.worker_id, job.id, 'lease_lost');
  const { id: job_id, worker_id, fence_token } = job;
  core.log('warn', 'lease expired', { job_id, worker_id, fence_token });
  const holder = worker_id === null ? null : core.workers.byId(worker_id);
  if (holder?.session.preempted) releaseAttempt(core, job, MACHINE_TAKEN);
  else {
    const message = 'the lease ran out: the worker was gone or did not renew it';
    failAttempt(core, job, { message, code: 'lease_expired', retryable: true }, 'queue');
  }
  if (holder) leaseRanOut(core, holder);
}

/** The most settled jobs that are deleted in one event, so that no event takes long. */
const BITE_JOBS = 200;
/** The pause between two such events, ms, so that other work gets its turn. */
const PAUSE_MS = 50;

/**
 * Forgets jobs that settled, and workers whose last sign of life came, longer ago than the retention time; a bounded
 * number at a time.
 */
function sweep(core: Core): void {
  const before = core.now() - core.settings.retention_seconds * 1000;
  sweepJobs(core, before);
  forgetSessions(core.sql, before);
  tellStillConnected(core);
  const next = nextSweep(core);
  if (next !== null) due(core, Math.max(next, core.now() + PAUSE_MS));
}

function sweepJobs(core: Core, before: number): void {
  if ((oldestSettledAt(core.sql) ?? before + 1) > before) return;
  const oldest = oldestSettled(core.sql, BITE_JOBS);
  const kept = oldest.findIndex((job) => job.settled_at > before);
  forget(core, kept < 0 ? oldest : oldest.slice(0, kept));
}

/**
 * Deletes what the tables hold of these jobs. Their files end by themselves: the object that holds them asks
 * (files/object.ts).
 */
function forget(core: Core, jobs: readonly OldJob[]): void {
  core.projections.forget(jobs);
  core.stored.remove(jobs);
}

function nextSweep(core: Core): number | null {
  return nextToForget(core.sql, core.settings.retention_seconds * 1000, stillConnectedMs(core));
}
