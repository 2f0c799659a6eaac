import type { JobView } from '../../protocol/jobs.ts';
import { ask } from '../api.ts';

type Copied = Pick<JobView, 'job_type' | 'config_id' | 'priority' | 'max_attempts' | 'stream'>;

/** Submits another job like this one, which stays as it is. @returns the other job's id @throws ApiFailure */
export async function submitCopy(job: Copied, payload: unknown): Promise<string> {
  const { job_type, config_id, priority, max_attempts, stream } = job;
  const copy = { job_type, config_id, priority, max_attempts, payload, ...(stream && { stream }) };
  const { id } = await ask<{ id: string }>('api/jobs', { method: 'POST', body: JSON.stringify(copy) });
  return id;
}
