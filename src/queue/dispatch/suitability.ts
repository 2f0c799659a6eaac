import { payloadText } from '../../protocol/index.ts';
import { suitsBase } from '../job-frame.ts';
import { fileSuitsBase } from '../rpc.ts';
import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { mayRun, profileOf, type Worker } from '../state/worker.ts';
import { readPayload } from '../store/jobs-table.ts';

/**
 * Says whether a base worker, which cannot run this job, leaves it to a connected worker that can; the job then counts
 * as declined by the base worker. Where there is no such worker the job is sent, and fails with the reason.
 */
export function isLeftToOthers(core: Core, worker: Worker, job: Job): boolean {
  if (profileOf(worker).takesAnyJob || !othersMayRun(core, job) || isSuited(core, job)) return false;
  worker.declined.add(job.id);
  return true;
}

function othersMayRun(core: Core, job: Job): boolean {
  for (const other of core.workers.all()) {
    if (!profileOf(other).takesAnyJob) continue;
    if (job.mode === 'waiting' ? mayRun(other, job.model) : other.session.config_id === job.config_id)
      return true;
  }
  return false;
}

function isSuited(core: Core, job: Job): boolean {
  if (job.mode === 'stored' && job.payload_file !== null) return fileSuitsBase(job.payload_file);
  const text = job.mode === 'waiting' ? payloadText(job.payload) : readPayload(core.sql, job.id);
  return text !== null && suitsBase(job.job_type, text);
}
