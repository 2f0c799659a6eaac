import { type JobTrace, limits, type TraceContext } from '../../protocol/index.ts';
import type { Job } from '../state/job.ts';

/**
 * What the frame of a job says of its trace: the context of its submission, and what the spans of gateway and queue
 * are made of.
 * @param job as it is before its dispatch
 * @param now epoch ms
 */
export function traceOf(job: Job, now: number): JobTrace {
  const context =
    job.mode === 'stored' && job.trace !== null ? (JSON.parse(job.trace) as TraceContext) : null;
  const earlier = job.mode === 'waiting' ? job.earlier : null;
  const previous_fence = earlier ? earlier.fence_token : job.fence_token;
  return {
    ...context,
    queued_ms: Math.max(0, now - job.created_at) + Math.max(0, earlier?.elapsed_ms ?? 0),
    attempts_left: Math.max(0, mostAttempts(job) - attemptNumber(job)),
    ...(previous_fence > 0 && { previous_fence }),
  };
}

/** Of the attempt that a dispatch would begin, from 1. */
export function attemptNumber(job: Job): number {
  return 1 + (job.mode === 'stored' ? job.attempts : (job.earlier?.attempts ?? 0));
}

/** The gateway repeats the requests of callers that wait. */
function mostAttempts(job: Job): number {
  return job.mode === 'stored' ? job.max_attempts : limits.CALL_ATTEMPTS;
}
