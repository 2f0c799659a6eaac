import {
  bounds,
  CLOSE,
  type JobRef,
  PROTOCOL,
  type Register,
  type Registered,
  type RevokeReason,
} from '../../protocol/index.ts';
import { givenAt, resumeRequest } from '../attempts/account.ts';
import { claimOf } from '../attempts/claim.ts';
import { denyWorker, leaseSecondsFor } from '../attempts/connection.ts';
import { breakUnknown, failAttempt, MACHINE_TAKEN, releaseAttempt } from '../attempts/end.ts';
import { stillConnectedMs, tellRegistered } from '../events/fleet-events.ts';
import { emit } from '../events/projection.ts';
import type { Job } from '../job.ts';
import { type Core, findJob, leasedBy, storeOf } from '../state/state.ts';
import { newWorker, occupySlot, profileOf, type Worker } from '../state/worker.ts';
import type { Connection, Session } from '../store/ports.ts';
import { due } from '../store/ports.ts';
import { beginSession, findBootId } from '../store/session-table.ts';

/** Registers a worker, which takes over from its own older connection, resumes what it still runs and gets jobs. */
export function register(core: Core, connection: Connection, frame: Register, sessionId: string): void {
  const older = core.workers.byConnection(connection);
  if (older && older.session.worker_id !== frame.worker_id) {
    const message = `this connection is the worker "${older.session.worker_id}": register "${frame.worker_id}" on one of its own`;
    return connection.send({ type: 'error', message });
  }
  const denial = denyWorker(core, connection, frame);
  if (denial) {
    core.log('warn', 'worker denied', { worker_id: frame.worker_id, reason: denial.message });
    connection.send({ type: 'error', message: denial.message });
    return connection.close(denial.code, denial.reason);
  }
  const before = core.workers.lastOf(frame.worker_id);
  replaceOlder(core, connection, frame.worker_id);
  const bootBefore = findBootId(core.sql, frame.worker_id);
  const session = sessionOf(core, connection, frame, sessionId);
  connection.save(session);
  const worker = newWorker(connection, session, {
    models: frame.instance?.models ?? [],
    adapters: frame.adapters ?? null,
  });
  if (before !== null && isSameProcess(before.session, session)) {
    worker.prefixes = before.prefixes;
    worker.charges = before.charges;
  }
  if (before !== null) worker.heldSince = before.heldSince;
  core.workers.add(worker);
  remember(core, worker);
  tellRegistered(core, worker, frame.instance ?? null);

  if (profileOf(worker).listsJobs) {
    const lost: Registered['revoked'] = [];
    const resumed = resumeListed(core, worker, frame.jobs ?? [], lost, before === null);
    if (bootBefore !== null && bootBefore === session.boot_id) {
      reclaimUnlisted(core, worker, 'the worker is back and never received it');
    } else reclaimUnlisted(core, worker, before?.session.preempted ? MACHINE_TAKEN : null);
    connection.send(registeredFrame(core, worker, resumed, lost));
  } else resumeAll(core, worker, older === null);
  forgetCharges(worker);
  if (connection.token?.expires_at !== undefined) due(core, connection.token.expires_at);
  core.admission.earlier.registered(frame.worker_id, worker.running);
  core.ready.worker(worker);
  core.log('info', 'worker registered', {
    worker_id: frame.worker_id,
    config_id: frame.config_id,
    capacity: frame.capacity,
    protocol: profileOf(worker).protocol,
    resumed: worker.running.size,
  });
}

/** Forgets charges and slot times of attempts that the worker no longer has. */
function forgetCharges({ charges, heldSince, running }: Worker): void {
  const fences = new Set(running.values());
  for (const map of [charges, heldSince])
    for (const fence of map.keys()) if (!fences.has(fence)) map.delete(fence);
}

/** Says whether the worker's process is the same as before. A base worker does not report it. */
function isSameProcess(before: Session, now: Session): boolean {
  return now.boot_id !== null && before.boot_id === now.boot_id;
}

function replaceOlder(core: Core, connection: Connection, workerId: string): void {
  const older = core.workers.byId(workerId);
  if (!older) return;
  core.workers.remove(older.connection);
  if (older.connection.id !== connection.id) {
    older.connection.close(CLOSE.superseded, 'a newer connection of this worker id took over');
  }
}

function sessionOf(core: Core, connection: Connection, frame: Register, sessionId: string): Session {
  return {
    session_id: sessionId,
    worker_id: frame.worker_id,
    config_id: frame.config_id,
    capacity: frame.capacity,
    price_per_hour: connection.price_per_hour ?? frame.instance?.price_per_hour ?? null,
    extended: (frame.protocol ?? 0) >= PROTOCOL,
    paused: false,
    draining: false,
    boot_id: frame.instance?.boot_id ?? null,
    machine_id: frame.instance?.machine_id ?? null,
    version: frame.instance?.version ?? null,
    model_identity: frame.instance?.model_identity ?? null,
    connected_at: core.now(),
  };
}

function remember(core: Core, worker: Worker): void {
  const { session, models, adapters, connection } = worker;
  const registrant = { boot_id: session.boot_id, token_name: connection.token?.name ?? null };
  core.projections.onOther({ kind: 'registered', worker });
  beginSession(core.sql, { ...session, models, adapters }, registrant, core.now());
  due(core, core.now() + stillConnectedMs(core));
}

/**
 * Resumes the jobs that the worker lists: it keeps each that no other worker has been given since.
 * @param isUnknown whether the queue has received nothing from this worker since the queue started
 */
function resumeListed(
  core: Core,
  worker: Worker,
  jobs: NonNullable<Register['jobs']>,
  lost: Registered['revoked'],
  isUnknown: boolean,
): string[] {
  const resumed: string[] = [];
  for (const attempt of jobs) {
    const { job_id, fence_token } = attempt;
    const job = findJob(core, job_id);
    const claim = claimOf(job, worker, attempt);
    const isUnwanted = job === null && core.requests.isCallerGone(job_id);
    if (claim === 'stale' || isUnwanted) lost.push({ job_id, reason: whyLost(job, attempt) });
    if (isUnwanted) breakUnknown(core, worker.session.worker_id, fence_token);
    // The acknowledgement of a settled attempt was lost: its settlement comes again and is acknowledged.
    if (claim === 'stale' || claim === 'settled_by_it' || isUnwanted) continue;
    if (job) resume(core, worker, job, leaseSecondsFor(core, worker));
    else {
      // An attempt that is counted has ended, but its worker does not know that.
      if (!core.projections.hasEnded(fence_token)) resumeRequest(core, worker, job_id, attempt.account);
      if (isUnknown) worker.heldSince.set(fence_token, givenAt(attempt.account) ?? core.now());
    }
    worker.running.set(job_id, fence_token);
    resumed.push(job_id);
  }
  return resumed;
}

/**
 * Returns why the worker lost a job: its caller is gone, it was ended while the worker had it, or others were given it.
 */
function whyLost(job: Job | null, { fence_token }: Pick<JobRef, 'fence_token'>): RevokeReason {
  if (job === null) return 'caller_gone';
  if (job.fence_token !== fence_token) return 'superseded';
  if (job.state === 'expired') return 'deadline';
  return job.state === 'cancelled' ? 'cancelled' : 'superseded';
}

/** Resumes a job at the worker, even one whose lease ran out, as long as no other worker has it. */
function resume(core: Core, worker: Worker, job: Job, leaseSeconds: number): void {
  const { worker_id } = worker.session;
  // The slot time of a job that is pending again was counted when its lease ran out.
  const since = job.state === 'pending' ? null : (worker.heldSince.get(job.fence_token) ?? job.leased_at);
  storeOf(core, job).extend(job, worker_id, core.now() + leaseSeconds * 1000);
  emit(core, job, 'resumed');
  occupySlot(worker, job, since ?? core.now());
}

/**
 * Resumes the jobs of a base worker, which lists none: it goes on with what it has, but drops what it finishes while it
 * has no connection. Soon after it is back it names the stored jobs that it still has, which renews their leases. The
 * gateway requests the waiting jobs again.
 */
function resumeAll(core: Core, worker: Worker, isNewConnection: boolean): void {
  const leaseSeconds = isNewConnection ? bounds.BASE_NAMED_WITHIN_SECONDS : leaseSecondsFor(core, worker);
  for (const job of leasedBy(core, worker.session.worker_id)) {
    if (job.mode === 'waiting' && isNewConnection) {
      const message = 'the worker connected anew, and an answer that it had ready meanwhile is lost';
      failAttempt(core, job, { message, code: 'worker_died', retryable: true }, 'queue');
    } else resume(core, worker, job, leaseSeconds);
  }
}

/**
 * Takes back the jobs that the queue thinks this worker holds but that it does not list. If the worker is the same
 * process, the frame never arrived and nothing is charged. If it is another, the earlier process died with them.
 * @param excuse why no job can be blamed; null: jobs are charged
 */
function reclaimUnlisted(core: Core, worker: Worker, excuse: string | null): void {
  for (const job of leasedBy(core, worker.session.worker_id)) {
    if (worker.running.has(job.id)) continue;
    if (excuse !== null) releaseAttempt(core, job, excuse);
    else {
      const message = 'the worker process ended while it ran the job';
      failAttempt(core, job, { message, code: 'worker_died', retryable: true }, 'queue');
    }
  }
}

function registeredFrame(
  core: Core,
  worker: Worker,
  resumed: string[],
  revoked: Registered['revoked'],
): Registered {
  const { session } = worker;
  const query = new URLSearchParams({
    queue_id: core.settings.queue_id,
    worker_id: session.worker_id,
    session_id: session.session_id,
  });
  const leaseSeconds = leaseSecondsFor(core, worker);
  return {
    type: 'registered',
    protocol: PROTOCOL,
    session_id: session.session_id,
    answers_url: `answers?${query}`,
    lease_seconds: leaseSeconds,
    renew_after_seconds: leaseSeconds * bounds.RENEW_SHARE,
    ping_seconds: core.settings.ping_seconds,
    resumed,
    revoked,
  };
}
