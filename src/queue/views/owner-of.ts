import type { JobOwner } from '../rpc.ts';
import { type Core, findJob } from '../state/state.ts';

/** Whose job it is, stored or waited for, and how it stands; null: there is no such job. */
export function ownerOf(core: Core, jobId: string): JobOwner | null {
  const job = findJob(core, jobId);
  return job && { tenant: job.tenant, config_id: job.config_id, state: job.state };
}
