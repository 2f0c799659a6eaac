import type { Core } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';

/**
 * Returns the length of this worker's leases, s. A base worker renews every 30 s from its own start, whatever interval
 * it is told.
 */
export function leaseSecondsFor(core: Core, worker: Worker): number {
  return profileOf(worker).leaseSeconds ?? core.settings.lease_seconds;
}
