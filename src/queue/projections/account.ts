import { lineOfJob, type Usage } from '../../protocol/index.ts';
import { type UsageKey, type UsageMode, workerNamed } from '../rpc.ts';
import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { adapterOf, type Worker } from '../state/worker.ts';

/** Returns the tenant, token, pool, model and mode that an attempt's usage is counted under. */
export function keyOf(core: Core, job: Job, usage: Usage | undefined): UsageKey & { mode: UsageMode } {
  const worker = job.worker_id === null ? null : core.workers.byId(job.worker_id);
  const asked = job.mode === 'waiting' && workerNamed(job.model) === null ? job.model : null;
  return {
    tenant: job.tenant ?? '',
    token_name: job.token_name ?? '',
    config_id: job.config_id || (worker?.session.config_id ?? ''),
    model: usage?.model ?? (worker && (adapterOf(worker, job.model) ?? onlyModel(worker))) ?? asked ?? '',
    mode: modeOf(job),
  };
}

function modeOf({ mode, id }: Job): UsageMode {
  return lineOfJob(id) === null ? mode : 'batch';
}

/** Returns the worker's only model, or null if it serves none or several. */
export function onlyModel({ models }: Worker): string | null {
  return models.length === 1 ? models[0]! : null;
}
