import { payloadText } from '../../protocol/index.ts';
import type { Job } from '../job.ts';
import { suitsBase } from '../job-frame.ts';
import { fileSuitsBase } from '../rpc.ts';
import type { Core } from '../state/state.ts';
import { mayRun, profileOf } from '../state/worker.ts';
import { readPayload } from '../store/jobs-table.ts';
import type { Scorer } from './choose.ts';

/**
 * Leaves a job that a base worker cannot run to a connected worker that can. Where there is no such worker the job is
 * sent, and fails with the reason.
 */
export const BASE_WORKERS: Scorer = {
  suits: (core, worker, job) =>
    profileOf(worker).takesAnyJob || !othersMayRun(core, job) || isSuited(core, job),
};

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
