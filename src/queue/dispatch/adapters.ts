import { adapterOf, type Worker } from '../state/worker.ts';
import type { Scorer } from './choose.ts';

/**
 * The costs of an adapter at a worker, the least first: nothing where it is loaded, one load where there is room, two
 * where another adapter is unloaded for it and loaded again later. A worker with one of the last two costs is chosen
 * only where there is no other.
 */
export const ADAPTER = { loaded: 0, fits: 1, evicts: 2, waits: 3, failed: 4 } as const;

/** Sends a job for an adapter to a worker that has it loaded, or can load it at the least cost. */
export const ADAPTERS: Scorer = {
  prefers: (worker, { model }) => modelCost(worker, model) < ADAPTER.waits,
  score: (worker, { model }) => -modelCost(worker, model),
  differs: (worker, { model }) => adapterOf(worker, model) !== null,
};

/**
 * Returns the cost of the model at a worker, as `ADAPTER` rates it: nothing where the model is no adapter, or is loaded
 * from the start.
 */
export function modelCost(worker: Worker, model: string | null): number {
  const { adapters, adapterJobs } = worker;
  const adapter = adapterOf(worker, model);
  if (adapters === null || adapter === null) return ADAPTER.loaded;
  const inUse = new Set(adapterJobs.values());
  if (inUse.has(adapter) || adapters.loaded.includes(adapter)) return ADAPTER.loaded;
  if (adapters.failed.some(({ name }) => name === adapter)) return ADAPTER.failed;
  // The worker has loaded the adapters of the jobs that it runs, or loads them now.
  const resident = new Set([...adapters.loaded, ...inUse]);
  if (resident.size < adapters.room) return ADAPTER.fits;
  return inUse.size < adapters.room ? ADAPTER.evicts : ADAPTER.waits;
}
