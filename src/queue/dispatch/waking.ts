import type { Job } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { awaitsTurn, mayRun, usableSlots, type Worker } from '../state/worker.ts';

/**
 * When a job may wake the engine of a worker that shares its GPU. What such a worker is given makes it ask for its turn,
 * and puts another model to sleep. So where another worker of the same model is awake a job goes there, and waits a
 * little for a slot; where none is, it wakes one at once.
 */

/** A swap takes about as long, ms. */
export const WAKE_AFTER_MS = 5000;

/**
 * Epoch ms from when on the job may be given to this worker.
 * @param workers all that are connected
 */
function mayWakeFrom(job: Job, worker: Worker, workers: readonly Worker[]): number {
  if (!awaitsTurn(worker)) return 0;
  const from = job.created_at + WAKE_AFTER_MS;
  // Otherwise the job would be turned away.
  if (job.mode === 'waiting' && job.slot_by <= from) return 0;
  return workers.some((other) => isAwakeFor(other, job)) ? from : 0;
}

function isAwakeFor(worker: Worker, job: Job): boolean {
  if (awaitsTurn(worker) || usableSlots(worker) === 0 || worker.declined.has(job.id)) return false;
  return job.mode === 'stored' ? worker.session.config_id === job.config_id : mayRun(worker, job.model);
}

/** Whether it may now. */
export function mayWake({ workers, now }: Core, job: Job, worker: Worker): boolean {
  return !awaitsTurn(worker) || mayWakeFrom(job, worker, workers.all()) <= now();
}

/** The job waits for a slot of an awake worker: `wakeOverdue` looks at it again. */
export function holdForAwake({ workers, ready, now }: Core, job: Job): void {
  const all = workers.all();
  for (const worker of all) {
    const from = mayWakeFrom(job, worker, all);
    if (from > now()) ready.wakesAt = Math.min(ready.wakesAt ?? from, from);
  }
}

/** Lets sleeping workers have the jobs that have waited long enough. */
export function wakeOverdue({ workers, ready, now }: Core): void {
  if (ready.wakesAt === null || ready.wakesAt > now()) return;
  ready.wakesAt = null;
  for (const worker of workers.all()) if (awaitsTurn(worker)) ready.worker(worker);
}
