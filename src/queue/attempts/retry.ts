import { doubling } from '../../process/backoff.ts';
import { duration } from '../../protocol/duration.ts';
import {
  type AttemptError,
  type Failure,
  limits,
  type PartialAnswer,
  type ReleaseReason,
} from '../../protocol/index.ts';
import { emit } from '../events/emit.ts';
import type { Told } from '../events/event.ts';
import type { EndedBy, Job } from '../state/job.ts';
import { keptText } from '../state/kept-partial.ts';
import { type Core, storeOf } from '../state/state.ts';
import { timesOf } from '../state/times.ts';
import { attemptErrors } from '../store/job-view.ts';
import { chargeUsage, takeBackCharge } from './charge.ts';
import { breakAnswer, endJob } from './end.ts';
import { countSlotTime, countWasted } from './usage.ts';

const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 60_000;

/** Delay before the attempt after `attempts` failures, ms: doubles from 1 s to 60 s, half of it random. */
function retryDelayMs(attempts: number, random: number): number {
  const full = doubling(FIRST_DELAY_MS, LONGEST_DELAY_MS, attempts);
  return Math.round(full * (0.5 + random / 2));
}

/**
 * Charges a failure to the job: another attempt later if it may have one, else it fails with all its errors. An attempt
 * is charged once, although one that resumed after a reconnect may fail a second time, or its worker may repeat the
 * failure.
 */
export function failAttempt(core: Core, job: Job, told: Failure, by: EndedBy, more: Told = {}): void {
  // A waiting caller gets all of the engine's own words.
  const failure =
    job.mode === 'stored' ? shortened(told, limits.JOB_ROW_ERROR_CHARACTERS / job.max_attempts) : told;
  const now = core.now();
  const earlier = attemptErrors(job).filter(({ fence_token }) => fence_token !== job.fence_token);
  const attempts = earlier.length + 1;
  const error: AttemptError = {
    ...failure,
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
  emit(core, timed(core, job), step, `${failure.code}: ${message}${next}`, more);
  const attempt_errors = JSON.stringify([...earlier, error]);
  if (again) {
    core.usage.keep(job.fence_token, tokensKept(core, job, more.partial));
    countWasted(core, job, job.fence_token, more.usage);
    countSlotTime(core, job);
    if (more.usage === undefined) takeBackCharge(core, job);
    else chargeUsage(core, job, more.usage);
    core.workers.freeSlot(job.worker_id, job.id, job.fence_token);
    if (by === 'queue') breakAnswer(core, job, failure);
    const kept = keptText(job, partialOf(core, job, more.partial), failure.message);
    storeOf(core, job).release(job, { attempts, attempt_errors, run_after: now + delayMs, kept });
    return;
  }
  const { worker_id } = job;
  endJob(
    core,
    job,
    { state: 'failed', worker_id, attempts, attempt_errors, result: null, error: failure },
    by,
    { usage: more.usage },
  );
}

/** With the times that its worker told beside a renewal, unless it has told them with its last word. */
function timed(core: Core, job: Job): Job {
  if (job.mode === 'waiting' || job.first_token_at !== null) return job;
  const timing = core.stored.partials.timingOf(job);
  return timing ? { ...job, ...timesOf(job, core.now(), timing) } : job;
}

/** What its worker made of the answer, as far as it told with its last word, or else before. */
function partialOf(core: Core, job: Job, told: PartialAnswer | undefined): PartialAnswer | undefined {
  return job.mode === 'waiting' ? undefined : (told ?? core.stored.partials.of(job));
}

/** Tokens of prompt and answer that the next attempt need not make again. */
function tokensKept(core: Core, job: Job, told: PartialAnswer | undefined): number {
  if (job.mode === 'waiting') return 0;
  return (partialOf(core, job, told) ?? core.stored.kept(job)?.partial)?.ids.length ?? 0;
}

/** The gateway decides whether a waiting job gets another attempt. */
function nextOf({ mode }: Job, again: boolean, delayMs: number): string {
  if (mode === 'waiting') return '';
  return again ? `; again in ${duration(delayMs)}` : '; not tried again';
}

/** The failure, its body left out and its message cut where it would be longer than `most` as JSON. */
function shortened(failure: Failure, most: number): Failure {
  if (JSON.stringify(failure).length <= most) return failure;
  const bodiless = failure.body === undefined ? failure : { ...failure, body: '(too long to be kept)' };
  if (JSON.stringify(bodiless).length <= most) return bodiless;
  // Escaped, a character takes up to six.
  return { ...bodiless, message: `${failure.message.slice(0, most / 8)} … (too long to be kept)` };
}

/** How a worker releases a job. */
interface Released {
  reason: ReleaseReason;
  /** Keeps the job from bouncing straight back to it. */
  delayMs?: number;
  /** What the next attempt goes on from. */
  partial?: PartialAnswer | undefined;
}

/**
 * Puts a job back to pending and charges nothing. If a relay carries the answer to a waiting job, the gateway asks for
 * it again.
 * @param why for the ledger
 * @param released left out: the queue takes it back, its worker did not release it
 */
export function releaseAttempt(core: Core, job: Job, why: string, released?: Released): void {
  const { reason, delayMs = 0, partial } = released ?? {};
  emit(core, timed(core, job), released ? 'released' : 'returned', why, reason && { reason });
  core.usage.keep(job.fence_token, tokensKept(core, job, partial));
  takeBackCharge(core, job);
  countSlotTime(core, job);
  core.workers.freeSlot(job.worker_id, job.id, job.fence_token);
  // The worker itself tells the relay of jobs that it released.
  if (!released) breakAnswer(core, job, { message: why, code: 'worker_died', retryable: true });
  const { attempts, attempt_errors } = job;
  const run_after = delayMs > 0 ? core.now() + delayMs : null;
  const kept = keptText(job, partialOf(core, job, partial), why);
  storeOf(core, job).release(job, { attempts, attempt_errors, run_after, kept });
}
