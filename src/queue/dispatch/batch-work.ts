import { isBatchWork } from '../state/job.ts';
import type { Core } from '../state/state.ts';
import { awaitsTurn, profileOf, usableSlots, type Worker } from '../state/worker.ts';
import { firstJobs } from './fair-order.ts';

/**
 * What may wait leaves room for what people wait for: some slots of a pool never run batch work, so that an
 * interactive request begins at once beside a batch of any length. Nothing that runs is interrupted.
 */

/** The slots of one pool, and what runs in them. */
export interface PoolSlots {
  usable: number;
  batch: number;
  interactive: number;
}

/** Slots that batch work leaves free: a tenth, at least one; none where there is only one. */
export function reservedSlots(usable: number): number {
  return usable > 1 ? Math.ceil(usable / 10) : 0;
}

/** Slots in which batch work may run beside what interactive jobs run now. */
export function slotsForBatches({ usable, interactive }: PoolSlots): number {
  return Math.max(0, usable - Math.max(interactive, reservedSlots(usable)));
}

export function hasRoomForBatch({ usable, batch }: PoolSlots): boolean {
  return batch < usable - reservedSlots(usable);
}

export function poolSlots(core: Core, configId: string): PoolSlots {
  const slots: PoolSlots = { usable: 0, batch: 0, interactive: 0 };
  // What a worker runs that takes no more has no share in the slots of the others.
  const taking = core.workers
    .all()
    .filter((worker) => worker.session.config_id === configId && usableSlots(worker) > 0);
  // What people wait for finds no room at one that sleeps: where another is awake, its slots are all there are.
  const awake = taking.filter((worker) => !awaitsTurn(worker));
  for (const worker of awake.length > 0 ? awake : taking) {
    slots.usable += usableSlots(worker);
    slots.batch += worker.batchJobs.size;
    slots.interactive += worker.running.size - worker.batchJobs.size;
  }
  return slots;
}

/** Whether this worker may begin a job that may wait. */
export function mayBeginBatchWork(core: Core, worker: Worker): boolean {
  return hasRoomForBatch(poolSlots(core, worker.session.config_id)) && !interactiveWorkWaits(core, worker);
}

/**
 * Whether an interactive job waits that the worker serves, though it has declined it: what else it is given would keep
 * it from that. What a worker of the base protocol declines it cannot run at all.
 */
export function interactiveWorkWaits(core: Core, worker: Worker): boolean {
  if (worker.declined.size === 0 || !profileOf(worker).takesAnyJob) return false;
  const all = { ...worker, declined: new Set<string>() };
  return firstJobs(core, all, 1, (priority) => !isBatchWork({ priority })).length > 0;
}
