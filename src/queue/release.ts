import type { JobRelease } from '../protocol/index.ts';
import { refuseIfHopeless, requeue } from './call.ts';
import { claimOf } from './claim.ts';
import type { Core } from './core.ts';
import { fillConfig, fillWorker } from './dispatch.ts';
import type { Worker } from './fleet.ts';
import { returnUncharged } from './retry.ts';
import { findJob, type JobRow } from './tables.ts';

/** A job refused by a worker that stays is not pushed straight back to it, ms. */
const REFUSED_DELAY_MS = 1000;
/** A job whose deadline no worker can meet is offered again after this long, as long as there is time, ms. */
const REFUSED_BY_ALL_DELAY_MS = 5000;
/** Refusals kept of one worker; they are forgotten when its load eases. */
const MOST_REFUSED = 1000;

/** The worker hands a job back unfinished: pending again, nobody blamed. */
export function release(core: Core, worker: Worker, frame: JobRelease): void {
  if (frame.reason === 'deadline') refuse(worker, frame.job_id);
  const transient = core.transients.get(frame.job_id);
  if (transient) {
    core.fleet.vacate(worker.session.worker_id, frame.job_id, frame.fence_token);
    if (claimOf(transient, worker, frame) === 'held') {
      core.transients.remove(transient);
      core.callLedgers.record(transient, 'released', frame.reason);
      // Where a relay carries the answer it told the gateway, which asks again.
      if (transient.answer) requeue(core, transient);
    }
    fillWorker(core, worker);
    // The gateway may have heard it from the relay before, and asked again.
    const again = core.transients.get(frame.job_id);
    if (again?.state === 'pending') refuseIfHopeless(core, again);
    return;
  }
  const row = findJob(core.sql, frame.job_id);
  core.fleet.vacate(worker.session.worker_id, frame.job_id, frame.fence_token);
  if (row !== null && claimOf(row, worker, frame) === 'held') {
    if (frame.reason === 'deadline') offerElsewhere(core, row);
    else
      returnUncharged(
        core,
        row,
        frame.reason === 'draining' ? 0 : REFUSED_DELAY_MS,
        'released',
        frame.reason,
      );
    core.log('info', 'job released', {
      job_id: row.id,
      reason: frame.reason,
      worker_id: worker.session.worker_id,
    });
    fillConfig(core, row.config_id);
  }
  fillWorker(core, worker);
}

function refuse(worker: Worker, jobId: string): void {
  if (worker.refused.size >= MOST_REFUSED) worker.refused.clear();
  worker.refused.add(jobId);
}

/** To a worker of the config that has not refused it, when one has a slot; when all have, to all of them later. */
function offerElsewhere(core: Core, row: JobRow): void {
  const workers = core.fleet.all().filter(({ session }) => session.config_id === row.config_id);
  const left = workers.filter(({ session, refused }) => !session.draining && !refused.has(row.id));
  if (left.length > 0) {
    returnUncharged(core, row, 0, 'released', 'deadline: the worker cannot meet it at its load');
    return;
  }
  for (const { refused } of workers) refused.delete(row.id);
  const again = `offered again in ${REFUSED_BY_ALL_DELAY_MS / 1000} s`;
  const why = `deadline: no connected worker can meet it at its load; ${again}`;
  returnUncharged(core, row, REFUSED_BY_ALL_DELAY_MS, 'released', why);
}
