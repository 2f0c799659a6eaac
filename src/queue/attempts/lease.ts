import type { Core } from '../state/state.ts';
import { profileOf, type Worker } from '../state/worker.ts';

/** How long this worker's leases are, s: a base worker renews every 30 s from its own start, whatever it is told. */
export function leaseSecondsFor(core: Core, worker: Worker): number {
  return profileOf(worker).leaseSeconds ?? core.settings.lease_seconds;
}
