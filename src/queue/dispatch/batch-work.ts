import { reservedSlots } from '../../protocol/index.ts';
import { isBatchWork } from '../job.ts';
import type { Core } from '../state/state.ts';
import { awaitsTurn, profileOf, usableSlots, type Worker } from '../state/worker.ts';
import type { Scorer } from './choose.ts';
import { firstJobs } from './fair-order.ts';

/**
 * Keeps room for interactive work: batch work never gets the last slots of a pool, so that an interactive request
 * begins at once beside a batch of any length. No running job is interrupted.
 */

/** Holds batch work back in a pool without room for it, and from a worker that interactive work waits for. */
export const BATCH_WORK: Scorer = {
  opens: (core, configId, priority) =>
    !isBatchWork({ priority }) || hasRoomForBatch(poolSlots(core, configId)) || heldBack(core, configId),
  fits: (core, worker, job) =>
    !isBatchWork(job) || !interactiveWorkWaits(core, worker) || heldBack(core, worker.session.config_id),
  reopen: (core) => {
    for (const configId of core.ready.heldBack)
      if (hasRoomForBatch(poolSlots(core, configId))) core.ready.pool(configId);
  },
};

/** Notes that batch work of the pool was held back, so that the next pass looks at it again. @returns false */
function heldBack({ ready }: Core, configId: string): false {
  ready.heldBack.add(configId);
  return false;
}

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

/**
 * Says whether an interactive job waits that the worker could run but has declined: other work would keep the worker
 * from that job. A job that a base worker has declined does not count, since the base worker cannot run it at all.
 */
function interactiveWorkWaits(core: Core, worker: Worker): boolean {
  if (worker.declined.size === 0 || !profileOf(worker).takesAnyJob) return false;
  const all = { ...worker, declined: new Set<string>() };
  return firstJobs(core, all, 1, (priority) => !isBatchWork({ priority })).length > 0;
}
