import type { JobExtras } from '../rpc.ts';
import { adapterOf, type Worker } from '../state/worker.ts';
import { warmth } from './warmth.ts';

/** The properties of a job that decide at which of several workers it does best. */
export interface Wants {
  /** The model that the job asks for; null: any. */
  model: string | null;
  extras: Pick<JobExtras, 'prefix'>;
}

export const WANTS_NOTHING: Wants = { model: null, extras: {} };

/** Says whether no worker suits the job better than this one. */
export function isAnywhere(worker: Worker, { extras: { prefix }, model }: Wants): boolean {
  return prefix === undefined && adapterOf(worker, model) === null;
}

/**
 * Rates the cost of an adapter at a worker, the least first: nothing where it is loaded, one load where there is room,
 * two where another adapter is unloaded for it and loaded again later. A worker with one of the last two costs is
 * chosen only where there is no other.
 */
export const ADAPTER = { loaded: 0, fits: 1, evicts: 2, waits: 3, failed: 4 } as const;

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

/**
 * Compares two workers for a job: above 0 where the job does better at the first, below 0 where it does worse there.
 */
export function compareAffinity(one: Worker, other: Worker, { extras: { prefix }, model }: Wants): number {
  const cost = modelCost(other, model) - modelCost(one, model);
  return cost !== 0 || prefix === undefined ? cost : warmth(one, prefix) - warmth(other, prefix);
}
