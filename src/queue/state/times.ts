import type { Job } from './job.ts';

/** When its caller asked for it, epoch ms: the first time, however often the gateway asks again. */
export function submittedAt(job: Job): number {
  return job.mode === 'stored' ? job.created_at : job.submitted_at;
}
