import type { JobEvent } from '../events/event.ts';
import type { Core } from '../state/state.ts';

/** Logs what an operator should see of stored jobs. Waiting jobs are left out: their callers get an answer. */
export function toLog(core: Core, { job, step, detail }: JobEvent): void {
  if (job.mode !== 'stored') return;
  const { id: job_id, worker_id, fence_token } = job;
  if (step === 'released') core.log('info', 'job released', { job_id, reason: detail, worker_id });
  if (step === 'lease_expired') core.log('warn', 'lease expired', { job_id, worker_id, fence_token });
}
