import type { Core } from '../state/state.ts';
import type { JobEvent } from './event.ts';

/** Log lines of what an operator should see of stored jobs; a caller that waits hears for itself. */
export function toLog(core: Core, { job, step, detail }: JobEvent): void {
  if (job.mode !== 'stored') return;
  const { id: job_id, worker_id, fence_token } = job;
  if (step === 'released') core.log('info', 'job released', { job_id, reason: detail, worker_id });
  if (step === 'lease_expired') core.log('warn', 'lease expired', { job_id, worker_id, fence_token });
}
