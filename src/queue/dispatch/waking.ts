import type { Job } from '../job.ts';
import type { Core } from '../state/state.ts';
import { awaitsTurn, mayRun, usableSlots, type Worker } from '../state/worker.ts';
import type { Scorer } from './choose.ts';

/**
 * Decides when a job may wake the engine of a worker that shares its GPU. Any job makes such a worker ask for its turn,
 * and so puts another model to sleep. So while another worker of the same model is awake, a job goes there and waits a
 * little for a slot; if none is awake, the job wakes an engine at once.
 */

/** A job waits this many ms for a slot of an awake worker, about as long as a swap takes. */
export const WAKE_AFTER_MS = 5000;

export const WAKING: Scorer = {
  fits: (core, worker, job) =>
    !awaitsTurn(worker) || mayWakeFrom(job, worker, core.workers.all()) <= core.now(),
  prefers: (worker) => !awaitsTurn(worker),
  unplaced: holdForAwake,
  timed: { dueAt: ({ ready }) => ready.wakesAt, run: wakeOverdue },
};

/** Returns the epoch ms from which the job may be given to this worker. @param workers all connected workers */
function mayWakeFrom(job: Job, worker: Worker, workers: readonly Worker[]): number {
  if (!awaitsTurn(worker)) return 0;
  const from = job.created_at + WAKE_AFTER_MS;
  // A job that may not wait so long would be rejected before.
  if (job.mode === 'waiting' && job.slot_by <= from) return 0;
  return workers.some((other) => isAwakeFor(other, job)) ? from : 0;
}

function isAwakeFor(worker: Worker, job: Job): boolean {
  if (awaitsTurn(worker) || usableSlots(worker) === 0 || worker.declined.has(job.id)) return false;
  return job.mode === 'stored' ? worker.session.config_id === job.config_id : mayRun(worker, job.model);
}

/** Keeps the job waiting for a slot of an awake worker, until `wakeOverdue` checks it again. */
function holdForAwake({ workers, ready, now }: Core, job: Job): void {
  const all = workers.all();
  for (const worker of all) {
    const from = mayWakeFrom(job, worker, all);
    if (from > now()) ready.wakesAt = Math.min(ready.wakesAt ?? from, from);
  }
}

/** Makes the jobs that have waited long enough ready for sleeping workers. */
function wakeOverdue({ workers, ready, now }: Core): void {
  if (ready.wakesAt === null || ready.wakesAt > now()) return;
  ready.wakesAt = null;
  for (const worker of workers.all()) if (awaitsTurn(worker)) ready.worker(worker);
}
