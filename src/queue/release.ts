import type { JobRelease } from '../protocol/index.ts';
import type { Core } from './core.ts';
import { fillConfig, fillWorker } from './dispatch.ts';
import type { Worker } from './fleet.ts';
import { returnUncharged } from './retry.ts';
import { findJob } from './tables.ts';

/** A job refused by a worker that stays is not pushed straight back to it, ms. */
const REFUSED_DELAY_MS = 1000;

/** The worker hands a job back unfinished: pending again, nobody blamed. */
export function release(core: Core, worker: Worker, frame: JobRelease): void {
  const transient = core.transients.get(frame.job_id);
  if (transient) {
    // Its relay told the gateway, which asks again.
    if (transient.fence_token === frame.fence_token) core.transients.remove(transient);
    core.fleet.vacate(worker.session.worker_id, frame.job_id, frame.fence_token);
    fillWorker(core, worker);
    return;
  }
  const row = findJob(core.sql, frame.job_id);
  core.fleet.vacate(worker.session.worker_id, frame.job_id, frame.fence_token);
  const mine =
    row?.state === 'leased' &&
    row.worker_id === worker.session.worker_id &&
    row.fence_token === frame.fence_token;
  if (row && mine) {
    returnUncharged(core, row, frame.reason === 'draining' ? 0 : REFUSED_DELAY_MS);
    core.log('info', 'job released', {
      job_id: row.id,
      reason: frame.reason,
      worker_id: worker.session.worker_id,
    });
    fillConfig(core, row.config_id);
  }
  fillWorker(core, worker);
}
