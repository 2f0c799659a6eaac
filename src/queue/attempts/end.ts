import type { Failure, FailureCode, RevokeReason } from '../../protocol/index.ts';
import { emit } from '../events/emit.ts';
import type { JobStep, Told } from '../events/event.ts';
import { chargeUsage, takeBackCharge } from '../projections/charge.ts';
import { predictedTokens, seenTokens } from '../projections/prefix-hits.ts';
import { countEnd } from '../projections/usage.ts';
import { streamIdOf } from '../state/fences.ts';
import type { EndedBy, Ending, Job } from '../state/job.ts';
import { type Core, storeOf } from '../state/state.ts';
import { revoke } from './revoke.ts';

export const CANCELLED = 'cancelled by the caller';

/** Ends a job, as nothing else may: frees its slot, breaks off its stream and settles it in its store. */
export function endJob(core: Core, job: Job, ending: Ending, by: EndedBy, told: Told = {}): void {
  const { timing, usage } = told;
  emit(core, job, stepOf(ending), detailOf(core, job, ending, told), { timing, usage, ending });
  countEnd(core, job, ending, by, usage);
  if (usage === undefined && by === 'queue' && ending.state === 'failed') takeBackCharge(core, job);
  else chargeUsage(core, job, usage);
  core.workers.freeSlot(job.worker_id, job.id, job.fence_token);
  if (by !== 'worker' && ending.error !== null) breakAnswer(core, job, ending.error);
  storeOf(core, job).end(job, ending);
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
  const error = { message, code, retryable: false };
  const worker_id = job.state === 'leased' ? job.worker_id : null;
  const { attempts, attempt_errors } = job;
  revoke(core, worker_id, job.id, reason);
  const by = reason === 'caller_gone' ? 'caller' : 'queue';
  endJob(core, job, { state, worker_id, attempts, attempt_errors, result: null, error }, by);
}

/** Breaks off the answer that a relay carries, since the caller, or a reader of a stored job, still waits for it. */
export function breakAnswer(core: Core, job: Job, reason: Failure): void {
  if (job.state !== 'leased') return;
  const isRelayed = job.mode === 'waiting' ? job.reply === null : job.stream === 1;
  if (!isRelayed) return;
  breakStream(core, job.worker_id ?? '', job.fence_token, reason);
}

/**
 * Breaks off the answer to a request from before the queue restarted, whose caller is gone: a relay may outlive the
 * queue.
 */
export function breakUnknown(core: Core, workerId: string, fence: number): void {
  breakStream(core, workerId, fence, { message: CANCELLED, code: 'cancelled', retryable: false });
}

function breakStream(core: Core, workerId: string, fence: number, reason: Failure): void {
  core.breakStream(workerId, streamIdOf(fence), reason);
}

function stepOf({ state }: Ending): JobStep {
  return state === 'cancelled' || state === 'expired' ? state : 'settled';
}

function detailOf(core: Core, job: Job, { state, error }: Ending, { usage }: Told): string {
  if (error !== null) return state === 'failed' ? `failed: ${error.code}: ${error.message}` : error.message;
  if (usage === undefined) return state;
  const tokens = `${usage.prompt_tokens} prompt and ${usage.completion_tokens} completion tokens`;
  const [predicted, seen] = [predictedTokens(core, job, usage), seenTokens(usage)];
  const cached = predicted + seen > 0 ? `; cached: ${predicted} predicted, ${seen} seen` : '';
  return `${state}: ${tokens}${cached}`;
}
