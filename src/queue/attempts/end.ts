import { doubling } from '../../process/backoff.ts';
import {
  type AttemptError,
  bounds,
  type Failure,
  type FailureCode,
  type PartialAnswer,
  type ReleaseReason,
  type RevokeReason,
  streamIdOf,
  type Usage,
} from '../../protocol/index.ts';
import { duration } from '../../protocol/text.ts';
import type { Facts, JobStep, Told } from '../events/event.ts';
import { emit } from '../events/projection.ts';
import { type EndedBy, type Ending, type Job, timesOf, type WaitingJob } from '../job.ts';
import { streamOf } from '../state/fences.ts';
import { keptText } from '../state/partial-answers.ts';
import { type Core, storeOf } from '../state/state.ts';
import { attemptErrors } from '../store/job-view.ts';

export const CANCELLED = 'cancelled by the caller';

/** Ends a job: frees its slot, breaks off its stream and settles it in its store. No other code may end a job. */
export function endJob(core: Core, job: Job, ending: Ending, by: EndedBy, told: Told = {}): void {
  const { timing, usage } = told;
  const cached = ending.error === null && usage ? cachedTokens(core, job, usage) : undefined;
  const facts = { timing, usage, ending, by, cached };
  emit(core, job, stepOf(ending), detailOf(ending, facts), facts, () => {
    core.workers.freeSlot(job.worker_id, job.id, job.fence_token);
    if (by !== 'worker' && ending.error !== null) breakAnswer(core, job, ending.error);
    storeOf(core, job).end(job, ending);
  });
}

/** Ends an unfinished job and tells the worker that runs it to stop. */
export function endUnfinished(
  core: Core,
  job: Job,
  state: 'cancelled' | 'expired',
  reason: RevokeReason,
  message: string,
): void {
  const code: FailureCode = state === 'expired' ? 'deadline' : 'cancelled';
  const error = withUsage(job, { message, code, retryable: false }, usageSoFar(core, job));
  const worker_id = job.state === 'leased' ? job.worker_id : null;
  const { attempts, attempt_errors } = job;
  revoke(core, worker_id, job.id, reason);
  const by = reason === 'caller_gone' ? 'caller' : 'queue';
  endJob(core, job, { state, worker_id, attempts, attempt_errors, result: null, error }, by);
}

/** Returns the tokens that a running attempt has reported; its worker reports all of them once it has stopped. */
function usageSoFar(core: Core, job: Job): Usage | undefined {
  if (job.state !== 'leased') return undefined;
  const worker = job.worker_id === null ? null : core.workers.lastOf(job.worker_id);
  const generated = worker?.charges.get(job.fence_token)?.seen ?? 0;
  return { prompt_tokens: 0, completion_tokens: generated, estimated: true };
}

/** Returns the failure of an attempt with the tokens that the attempt used. The row of a stored job keeps them. */
export function withUsage({ mode }: Pick<Job, 'mode'>, failure: Failure, told: Usage | undefined): Failure {
  if (mode !== 'stored' || told === undefined) return failure;
  const { model: _, ...usage } = told;
  return { ...failure, usage };
}

/** Breaks off the answer that a relay carries, since the caller, or a reader of a stored job, still waits for it. */
function breakAnswer(core: Core, job: Job, reason: Failure): void {
  if (job.state !== 'leased') return;
  const isRelayed = job.mode === 'waiting' ? job.reply === null : job.stream === 1;
  if (!isRelayed) return;
  core.breakStream(job.worker_id ?? '', streamOf(job), reason);
}

/**
 * Breaks off the answer to a request from before the queue restarted, whose caller is gone: a relay may outlive the
 * queue. The home of its stream is not known any more.
 */
export function breakUnknown(core: Core, workerId: string, fence: number): void {
  const reason: Failure = { message: CANCELLED, code: 'cancelled', retryable: false };
  core.breakStream(workerId, streamIdOf(fence), reason, 'any home');
}

function stepOf({ state }: Ending): JobStep {
  return state === 'cancelled' || state === 'expired' ? state : 'settled';
}

function detailOf({ state, error }: Ending, { usage, cached }: Told & Facts): string {
  if (error !== null) return state === 'failed' ? `failed: ${error.code}: ${error.message}` : error.message;
  if (usage === undefined || cached === undefined) return state;
  const tokens = `${usage.prompt_tokens} prompt and ${usage.completion_tokens} completion tokens`;
  const { predicted, seen } = cached;
  return `${state}: ${tokens}${predicted + seen > 0 ? `; cached: ${predicted} predicted, ${seen} seen` : ''}`;
}

/**
 * Returns how many tokens of the prompt the worker had computed before: as the queue predicted when it dispatched the
 * job, and as the engine reports, 0 if it reports none. The job must still have its slot.
 */
function cachedTokens(
  core: Core,
  { id, worker_id }: Job,
  { prompt_tokens, cached_tokens = 0 }: Usage,
): Facts['cached'] {
  const worker = worker_id === null ? null : core.workers.byId(worker_id);
  return {
    predicted: Math.round((worker?.predicted.get(id) ?? 0) * prompt_tokens),
    seen: Math.min(cached_tokens, prompt_tokens),
  };
}

const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 60_000;

/**
 * Returns the delay before the attempt after `attempts` failures, ms: it doubles from 1 s to 60 s, and half of it is
 * random.
 */
function retryDelayMs(attempts: number, random: number): number {
  const full = doubling(FIRST_DELAY_MS, LONGEST_DELAY_MS, attempts);
  return Math.round(full * (0.5 + random / 2));
}

/**
 * Charges a failure to the job, which gets another attempt later if it may have one and otherwise fails with all its
 * errors. An attempt is charged once, although one that resumed after a reconnect may fail a second time, or its worker
 * may repeat the failure.
 */
export function failAttempt(core: Core, job: Job, told: Failure, by: EndedBy, more: Told = {}): void {
  // A waiting caller gets the engine's words in full.
  const failure =
    job.mode === 'stored' ? shortened(told, bounds.JOB_ROW_ERROR_CHARACTERS / job.max_attempts) : told;
  const now = core.now();
  const earlier = attemptErrors(job).filter(({ fence_token }) => fence_token !== job.fence_token);
  const attempts = earlier.length + 1;
  const error: AttemptError = {
    ...withUsage(job, failure, more.usage),
    attempt: attempts,
    fence_token: job.fence_token,
    ...(job.worker_id === null ? {} : { worker_id: job.worker_id }),
    at: new Date(now).toISOString(),
  };
  const again = failure.retryable && attempts < job.max_attempts;
  const delayMs = again ? retryDelayMs(attempts, core.random()) : 0;
  const step = failure.code === 'lease_expired' ? 'lease_expired' : 'attempt_failed';
  const next = nextOf(job, again, delayMs);
  const message = next === '' ? failure.message : failure.message.replace(/\.$/, '');
  const detail = `${failure.code}: ${message}${next}`;
  const attempt_errors = JSON.stringify([...earlier, error]);
  if (again) {
    const facts = { ...more, failure, isRepeated: true, kept: tokensKept(core, job, more.partial) };
    emit(core, timed(core, job), step, detail, facts, () => {
      core.workers.freeSlot(job.worker_id, job.id, job.fence_token);
      if (by === 'queue') breakAnswer(core, job, failure);
      const kept = keptText(job, partialOf(core, job, more.partial), failure.message);
      storeOf(core, job).release(job, { attempts, attempt_errors, run_after: now + delayMs, kept });
    });
    return;
  }
  emit(core, timed(core, job), step, detail, { ...more, failure });
  const { worker_id } = job;
  endJob(
    core,
    job,
    {
      state: 'failed',
      worker_id,
      attempts,
      attempt_errors,
      result: null,
      error: withUsage(job, failure, more.usage),
    },
    by,
    { usage: more.usage },
  );
}

/** Adds the times that the worker reported beside a renewal, unless the attempt's last frame reported them. */
function timed(core: Core, job: Job): Job {
  if (job.mode === 'waiting' || job.first_token_at !== null) return job;
  const timing = core.stored.partials.timingOf(job);
  return timing ? { ...job, ...timesOf(job, core.now(), timing) } : job;
}

/**
 * Returns the part of the answer that the worker reported with the attempt's last frame or, failing that, beside its
 * renewals.
 */
function partialOf(core: Core, job: Job, told: PartialAnswer | undefined): PartialAnswer | undefined {
  return job.mode === 'waiting' ? undefined : (told ?? core.stored.partials.of(job));
}

/** Counts the tokens of prompt and answer that the next attempt need not compute again. */
function tokensKept(core: Core, job: Job, told: PartialAnswer | undefined): number {
  if (job.mode === 'waiting') return 0;
  return (partialOf(core, job, told) ?? core.stored.kept(job)?.partial)?.ids.length ?? 0;
}

/**
 * Words what follows the failure, for the ledger. For a waiting job it is empty: the gateway decides about another
 * attempt.
 */
function nextOf({ mode }: Job, again: boolean, delayMs: number): string {
  if (mode === 'waiting') return '';
  return again ? `; again in ${duration(delayMs)}` : '; not tried again';
}

/** Returns the failure without its body, and with its message cut, where it would be longer than `most` as JSON. */
function shortened(failure: Failure, most: number): Failure {
  if (JSON.stringify(failure).length <= most) return failure;
  const bodiless = failure.body === undefined ? failure : { ...failure, body: '(too long to be kept)' };
  if (JSON.stringify(bodiless).length <= most) return bodiless;
  // A character takes up to six when it is escaped.
  return { ...bodiless, message: `${failure.message.slice(0, most / 8)} … (too long to be kept)` };
}

/** A worker's release of a job. */
interface Released {
  reason: ReleaseReason;
  /** The delay, ms, that keeps the job from bouncing straight back to the worker. */
  delayMs?: number;
  /** The part of the answer from which the next attempt goes on. */
  partial?: PartialAnswer | undefined;
}

/** Why a job whose worker had notice that its machine goes is put back: nothing is charged for it. */
export const MACHINE_TAKEN = 'its machine was taken away';

/**
 * Puts a job back to pending without charging its attempt. If a relay carries the answer to a waiting job, the gateway
 * requests the job again.
 * @param why the reason, for the ledger
 * @param released the worker's release; left out where the queue takes the job back itself
 */
export function releaseAttempt(core: Core, job: Job, why: string, released?: Released): void {
  const { reason, delayMs = 0, partial } = released ?? {};
  const facts = { ...(reason && { reason }), kept: tokensKept(core, job, partial) };
  if (released && job.mode === 'stored')
    core.log('info', 'job released', { job_id: job.id, reason: why, worker_id: job.worker_id });
  emit(core, timed(core, job), released ? 'released' : 'returned', why, facts, () => {
    core.workers.freeSlot(job.worker_id, job.id, job.fence_token);
    // The worker itself informs the relay about a job that it released.
    if (!released) breakAnswer(core, job, { message: why, code: 'worker_died', retryable: true });
    const { attempts, attempt_errors } = job;
    const run_after = delayMs > 0 ? core.now() + delayMs : null;
    const kept = keptText(job, partialOf(core, job, partial), why);
    storeOf(core, job).release(job, { attempts, attempt_errors, run_after, kept });
  });
}

/** Tells the worker, if it is connected, that a job is no longer its own, so that it aborts the engine request. */
export function revoke(core: Core, workerId: string | null, jobId: string, reason: RevokeReason): void {
  const worker = workerId === null ? null : core.workers.byId(workerId);
  worker?.connection.send({ type: 'job_revoked', job_id: jobId, reason });
}

/**
 * Says, for the caller, that the request reached its deadline or time limit, and where its time went.
 * @param now epoch ms
 */
export function timePassed({ created_at, leased_at, worker_id, state }: WaitingJob, now: number): string {
  const began = state === 'leased' ? leased_at : null;
  const waited = `it waited ${seconds((began ?? now) - created_at)} for a slot`;
  const ran = began === null ? 'and got none' : `and ran ${seconds(now - began)} on worker ${worker_id}`;
  return `the time of the request is over: ${waited} ${ran}`;
}

function seconds(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
}
