import { reservedSlots } from '../../protocol/index.ts';
import { isBatchWork } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { awaitsTurn, profileOf, usableSlots, type Worker } from '../state/worker.ts';
import { firstJobs } from './fair-order.ts';

/**
 * Keeps room for interactive work: batch work never gets the last slots of a pool, so that an interactive request
 * begins at once beside a batch of any length. No running job is interrupted.
 */

/** The slots of one pool, and what runs in them. */
export interface PoolSlots {
  usable: number;
  batch: number;
  interactive: number;
}

/** Returns the number of slots in which batch work may run beside what interactive jobs run now. */
export function slotsForBatches({ usable, interactive }: PoolSlots): number {
  return Math.max(0, usable - Math.max(interactive, reservedSlots(usable)));
}

export function hasRoomForBatch({ usable, batch }: PoolSlots): boolean {
  return batch < usable - reservedSlots(usable);
}

export function poolSlots(core: Core, configId: string): PoolSlots {
  const slots: PoolSlots = { usable: 0, batch: 0, interactive: 0 };
  // The jobs of a worker that accepts no more do not count against the slots of the others.
  const taking = core.workers
    .all()
    .filter((worker) => worker.session.config_id === configId && usableSlots(worker) > 0);
  // An interactive job does not begin at once on a sleeping engine: while another one is awake, only that one's slots
  // count.
  const awake = taking.filter((worker) => !awaitsTurn(worker));
  for (const worker of awake.length > 0 ? awake : taking) {
    slots.usable += usableSlots(worker);
    slots.batch += worker.batchJobs.size;
    slots.interactive += worker.running.size - worker.batchJobs.size;
  }
  return slots;
}

/** Says whether this worker may begin batch work. */
export function mayBeginBatchWork(core: Core, worker: Worker): boolean {
  return hasRoomForBatch(poolSlots(core, worker.session.config_id)) && !interactiveWorkWaits(core, worker);
}

/**
 * Says whether an interactive job waits that the worker could run but has declined: other work would keep the worker
 * from that job. A job that a base worker has declined does not count, since the base worker cannot run it at all.
 */
export function interactiveWorkWaits(core: Core, worker: Worker): boolean {
  if (worker.declined.size === 0 || !profileOf(worker).takesAnyJob) return false;
  const all = { ...worker, declined: new Set<string>() };
  return firstJobs(core, all, 1, (priority) => !isBatchWork({ priority })).length > 0;
}
