import { bounds, type JobTrace } from '../../protocol/index.ts';
import type { Job } from '../state/job.ts';

/**
 * Returns what the job's frame says of its trace: the context of its submission, and the facts from which the spans of
 * gateway and queue are made.
 * @param job as it is before its dispatch
 * @param now epoch ms
 */
export function traceOf(job: Job, now: number): JobTrace {
  const earlier = job.mode === 'waiting' ? job.earlier : null;
  const previous_fence = earlier ? earlier.fence_token : job.fence_token;
  return {
    ...job.extras.trace,
    queued_ms: Math.max(0, now - job.created_at) + Math.max(0, earlier?.elapsed_ms ?? 0),
    attempts_left: Math.max(0, mostAttempts(job) - attemptNumber(job)),
    ...(previous_fence > 0 && { previous_fence }),
  };
}

/** Returns the number of the attempt that a dispatch would begin, from 1. */
export function attemptNumber(job: Job): number {
  return 1 + (job.mode === 'stored' ? job.attempts : (job.earlier?.attempts ?? 0));
}

/** Returns how many attempts the job may have; the gateway repeats the requests of waiting callers. */
function mostAttempts(job: Job): number {
  return job.mode === 'stored' ? job.max_attempts : bounds.CALL_ATTEMPTS;
}
