import {
  type AckOutcome,
  type Failure,
  isRetryableStatus,
  type JobError,
  type JobRef,
  type JobRelease,
  type JobResult,
  type JobResultRef,
  parseEngineError,
} from '../../protocol/index.ts';
import { duration } from '../../protocol/text.ts';
import { usageIn } from '../attempts/account.ts';
import { type Claim, claimOf } from '../attempts/claim.ts';
import { endJob, failAttempt, releaseAttempt, withUsage } from '../attempts/end.ts';
import { emit } from '../events/projection.ts';
import type { Job } from '../job.ts';
import { timesOf } from '../job.ts';
import { type Core, findJob } from '../state/state.ts';
import { isLeaving, profileOf, type Worker } from '../state/worker.ts';

/** Settles a job that succeeded: checks the fence, settles the job in its store and acknowledges, all in one commit. */
export function settleResult(core: Core, worker: Worker, frame: JobResult): void {
  settle(core, worker, frame, 'succeeded', (job) => succeed(core, job, frame, frame.result));
}

/** Settles a job that succeeded with a result in a file, which this attempt has named before. */
export function settleResultRef(core: Core, worker: Worker, frame: JobResultRef): void {
  const { job_id } = frame;
  settle(core, worker, frame, 'succeeded', (job) => {
    if (job.mode === 'stored' && job.result_file !== null) return succeed(core, job, frame, null);
    const message = 'the worker announced a result that it had not put there';
    failAttempt(core, job, { message, code: 'worker_error', retryable: true }, 'worker');
  });
  if (profileOf(worker).wantsEcho) worker.connection.send({ type: 'job_result_ref', job_id });
}

/** Handles a failed attempt: the job fails, or gets another attempt later. */
export function settleError(core: Core, worker: Worker, frame: JobError): void {
  const error = failureOf(worker, frame);
  if (error.code === 'engine_died') worker.prefixes.clear();
  settle(core, worker, frame, 'failed', (job) => {
    // The worker saw the deadline pass before the queue's alarm did.
    if (error.code === 'deadline' && job.deadline_at !== null) {
      const { worker_id, attempts, attempt_errors } = job;
      const last = withUsage(job, error, frame.usage);
      endJob(
        core,
        job,
        { state: 'expired', worker_id, attempts, attempt_errors, result: null, error: last },
        'worker',
        frame,
      );
    } else failAttempt(core, job, error, 'worker', frame);
  });
}

function succeed(
  core: Core,
  job: Job,
  told: JobResult | JobResultRef,
  result: Record<string, unknown> | null,
): void {
  const { worker_id, attempts, attempt_errors } = job;
  const ending = { state: 'succeeded', worker_id, attempts, attempt_errors, result, error: null } as const;
  const { timing, usage = usageIn(result) } = told;
  endJob(core, job, ending, 'worker', { timing, usage });
}

function settle(
  core: Core,
  worker: Worker,
  frame: JobResult | JobResultRef | JobError,
  state: 'succeeded' | 'failed',
  end: (job: Job) => void,
): void {
  const { job_id, fence_token } = frame;
  const job = findJob(core, job_id);
  const claim = claimOf(job, worker, attemptMeant(worker, job, frame));
  const isLastWord = claim !== 'held' && claim !== 'lapsed' && isOfCancelled(job, worker, frame);
  const outcome = isLastWord ? 'accepted' : outcomeOf(claim, job, worker, frame, state);
  if (job !== null && outcome === 'settle') {
    end(job.mode === 'stored' ? { ...job, ...timesOf(job, core.now(), frame.timing) } : job);
  } else if (job !== null && !isLastWord) {
    const told = { ...job, worker_id: worker.session.worker_id };
    if (outcome === 'accepted') emit(core, told, 'acknowledged_again');
    else emit(core, told, 'refused_stale', `its token was ${fence_token}`);
  }
  if (outcome !== 'settle')
    core.projections.onOther({ kind: 'settled_aside', worker, job, claim, outcome, frame });
  // The gateway may have requested the job again before the worker reported this end: then only the old slot is freed.
  core.workers.freeSlot(worker.session.worker_id, job_id, fence_token);
  if (job === null) core.admission.earlier.ended(job_id);
  forgetDeclined(core, worker);
  // The acknowledgement waits until the usage is written: a worker whose settlement was acknowledged does not repeat
  // it.
  core.projections.whenWritten(fence_token, () =>
    acknowledge(worker, frame, outcome === 'settle' ? 'accepted' : outcome),
  );
  if (worker.session.draining) core.projections.write();
}

/** Says whether a settlement only reports the usage of an attempt that was revoked because its job was over. */
function isOfCancelled(
  job: Job | null,
  { session }: Worker,
  frame: JobResult | JobResultRef | JobError,
): boolean {
  if (frame.type !== 'job_error' || (frame.code !== 'cancelled' && frame.code !== 'deadline')) return false;
  return job === null || (job.fence_token === frame.fence_token && job.worker_id === session.worker_id);
}

/**
 * Returns the attempt that the frame means. A base worker keeps no fence token of waiting jobs and sends 0, which
 * counts if the worker holds the job.
 */
function attemptMeant(worker: Worker, job: Job | null, { fence_token }: JobRef): Pick<JobRef, 'fence_token'> {
  const isUntold = profileOf(worker).sendsZeroFence && fence_token === 0 && job?.mode === 'waiting';
  return { fence_token: isUntold ? job.fence_token : fence_token };
}

/** Returns what the verdict on a settlement means for the job. */
function outcomeOf(
  claim: Claim,
  job: Job | null,
  worker: Worker,
  { job_id, fence_token }: JobRef,
  state: 'succeeded' | 'failed',
): 'settle' | AckOutcome {
  switch (claim) {
    case 'held':
      return 'settle';
    case 'lapsed':
      // An attempt that fails after its lease ran out was charged then.
      return state === 'succeeded' ? 'settle' : 'accepted';
    case 'settled_by_it':
      return job?.state === state ? 'accepted' : 'stale';
    case 'stale':
      return 'stale';
    case 'unknown':
      // The worker kept the job over a restart of the queue: nothing is stored of the job, but it holds a slot.
      return worker.running.get(job_id) === fence_token ? 'accepted' : 'unknown';
  }
}

/** Forgets the jobs that the worker declined, since it now has less to do than it had then. */
function forgetDeclined(core: Core, worker: Worker): void {
  if (worker.declined.size === 0) return;
  worker.declined.clear();
  core.ready.worker(worker);
}

function acknowledge(worker: Worker, { job_id, fence_token }: JobRef, outcome: AckOutcome): void {
  if (!worker.session.extended) return;
  worker.connection.send({ type: 'ack', job_id, fence_token, outcome });
}

/**
 * Returns the failure of a settlement. A base worker sends only a text: the engine's status is parsed from it, and the
 * rest follows from that.
 */
function failureOf(worker: Worker, frame: JobError): Failure {
  const status = frame.http_status ?? parseEngineError(frame.error)?.status ?? null;
  const retryable =
    frame.retryable ??
    (status === null ? profileOf(worker).retriesUnknownFailures : isRetryableStatus(status));
  return {
    message: frame.error,
    code: frame.code ?? 'worker_error',
    retryable,
    ...(status === null ? {} : { http_status: status }),
    ...(frame.body === undefined ? {} : { body: frame.body }),
  };
}

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
  if (job === null) core.admission.earlier.ended(job_id);
  if (job !== null && claimOf(job, worker, frame) === 'held') {
    if (reason === 'deadline') offerElsewhere(core, job);
    else {
      const delayMs = reason === 'draining' ? 0 : RELEASED_DELAY_MS;
      // The times of a waiting job are reported by the gateway when it requests the rest of the answer.
      const timed = timing && job.mode === 'stored' ? { ...job, ...timesOf(job, core.now(), timing) } : job;
      const isPreempted = reason === 'draining' && worker.session.preempted === true;
      const why = isPreempted ? 'draining: its machine is being taken away' : reason;
      releaseAttempt(core, timed, why, { reason, delayMs, partial: frame.partial });
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
