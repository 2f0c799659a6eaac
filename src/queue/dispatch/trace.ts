import { type JobTrace, limits, type TraceContext } from '../../protocol/index.ts';
import type { Job } from '../state/job.ts';
import { hasFeature, type Worker } from '../state/worker.ts';

/**
 * What the frame of a job says of its trace; null: nothing. A worker that exports spans (feature `trace`) is told what
 * the queue's spans are made of; to any other the context goes for its engine's sake.
 * @param job as it is before its dispatch
 * @param now epoch ms
 */
export function traceOf(worker: Worker, job: Job, now: number): JobTrace | null {
  const context =
    job.lives === 'stored' && job.trace !== null ? (JSON.parse(job.trace) as TraceContext) : null;
  if (!hasFeature(worker, 'trace')) return context;
  const earlier = job.lives === 'memory' ? job.earlier : null;
  const previous_fence = earlier ? earlier.fence_token : job.fence_token;
  return {
    ...context,
    queued_ms: Math.max(0, now - job.created_at) + (earlier?.elapsed_ms ?? 0),
    attempts_left: Math.max(0, attemptsOf(job) - attemptNumber(job)),
    ...(previous_fence > 0 && { previous_fence }),
  };
}

/** Of the attempt that a dispatch would begin, from 1. */
export function attemptNumber(job: Job): number {
  return 1 + (job.lives === 'stored' ? job.attempts : (job.earlier?.attempts ?? 0));
}

/** The gateway repeats the requests of callers that wait. */
function attemptsOf(job: Job): number {
  return job.lives === 'stored' ? job.max_attempts : limits.CALL_ATTEMPTS;
}
