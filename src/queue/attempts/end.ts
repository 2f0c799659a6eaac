import type { Failure, FailureCode, RevokeReason, Usage } from '../../protocol/index.ts';
import type { Facts, JobStep, Told } from '../events/event.ts';
import { emit } from '../events/projection.ts';
import type { EndedBy, Ending, Job } from '../job.ts';
import { streamIdOf } from '../state/fences.ts';
import { type Core, storeOf } from '../state/state.ts';
import { revoke } from './revoke.ts';

export const CANCELLED = 'cancelled by the caller';

/** Ends a job, as nothing else may: frees its slot, breaks off its stream and settles it in its store. */
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

function detailOf({ state, error }: Ending, { usage, cached }: Told & Facts): string {
  if (error !== null) return state === 'failed' ? `failed: ${error.code}: ${error.message}` : error.message;
  if (usage === undefined || cached === undefined) return state;
  const tokens = `${usage.prompt_tokens} prompt and ${usage.completion_tokens} completion tokens`;
  const { predicted, seen } = cached;
  return `${state}: ${tokens}${predicted + seen > 0 ? `; cached: ${predicted} predicted, ${seen} seen` : ''}`;
}

/**
 * Returns how many tokens of the prompt the worker had computed before: as was supposed when it got the job, and as the
 * engine reports; engines that report nothing count as 0. The job must have its slot still.
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
