import type { JobOwner } from '../rpc.ts';
import { type Core, findJob } from '../state/state.ts';

/** Returns the tenant, pool and state of a job of either mode; null if there is no such job. */
export function ownerOf(core: Core, jobId: string): JobOwner | null {
  const job = findJob(core, jobId);
  return job && { tenant: job.tenant, config_id: job.config_id, state: job.state };
}
