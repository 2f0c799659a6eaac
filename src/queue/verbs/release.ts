import type { JobRelease } from '../../protocol/index.ts';
import { claimOf } from '../attempts/claim.ts';
import { returnUncharged } from '../attempts/retry.ts';
import type { Worker } from '../state/live-fleet.ts';
import type { Core } from '../state/state.ts';
import { findJob, type JobRow } from '../store/jobs-table.ts';
import { requeue } from './request.ts';

/** A job released by a worker that stays is not pushed straight back to it, ms. */
const RELEASED_DELAY_MS = 1000;
/** A job whose deadline no worker can meet is offered again after this long, as long as there is time, ms. */
const DECLINED_BY_ALL_DELAY_MS = 5000;
/** Declined jobs kept of one worker; they are forgotten when its load eases. */
const MOST_DECLINED = 1000;

/** The worker hands a job back unfinished: pending again, nobody blamed. */
export function release(core: Core, worker: Worker, frame: JobRelease): void {
  if (frame.reason === 'deadline') decline(worker, frame.job_id);
  const transient = core.transients.get(frame.job_id);
  if (transient) {
    core.fleet.freeSlot(worker.session.worker_id, frame.job_id, frame.fence_token);
    if (claimOf(transient, worker, frame) === 'held') {
      core.transients.remove(transient);
      core.callLedgers.record(transient, 'released', frame.reason);
      // Where a relay carries the answer it told the gateway, which asks again.
      if (transient.answer) requeue(core, transient);
    }
    // The gateway may have heard it from the relay before, and asked again: this worker may have been its last hope.
    const again = core.transients.get(frame.job_id);
    if (again) core.openings.job(again);
    return;
  }
  const row = findJob(core.sql, frame.job_id);
  core.fleet.freeSlot(worker.session.worker_id, frame.job_id, frame.fence_token);
  if (row !== null && claimOf(row, worker, frame) === 'held') {
    if (frame.reason === 'deadline') offerElsewhere(core, row);
    else
      returnUncharged(
        core,
        row,
        frame.reason === 'draining' ? 0 : RELEASED_DELAY_MS,
        'released',
        frame.reason,
      );
    core.log('info', 'job released', {
      job_id: row.id,
      reason: frame.reason,
      worker_id: worker.session.worker_id,
    });
  }
}

function decline(worker: Worker, jobId: string): void {
  if (worker.declined.size >= MOST_DECLINED) worker.declined.clear();
  worker.declined.add(jobId);
}

/** To a worker of the config that has not declined it, when one has a slot; when all have, to all of them later. */
function offerElsewhere(core: Core, row: JobRow): void {
  const workers = core.fleet.all().filter(({ session }) => session.config_id === row.config_id);
  const left = workers.filter(({ session, declined }) => !session.draining && !declined.has(row.id));
  if (left.length > 0) {
    returnUncharged(core, row, 0, 'released', 'deadline: the worker cannot meet it at its load');
    return;
  }
  for (const { declined } of workers) declined.delete(row.id);
  const again = `offered again in ${DECLINED_BY_ALL_DELAY_MS / 1000} s`;
  const why = `deadline: no connected worker can meet it at its load; ${again}`;
  returnUncharged(core, row, DECLINED_BY_ALL_DELAY_MS, 'released', why);
}
