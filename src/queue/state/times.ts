import type { Job } from './job.ts';

/** When its caller asked for it, epoch ms: once, however often its gateway asks again. */
export function submittedAt(job: Job): number {
  return job.mode === 'stored' ? job.created_at : job.submitted_at;
}
