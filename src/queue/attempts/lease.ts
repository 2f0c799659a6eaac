import { limits } from '../../protocol/index.ts';
import type { Worker } from '../state/live-fleet.ts';
import type { Core } from '../state/state.ts';

/** How long this worker's leases are, s: a base worker renews every 30 s from its own start, whatever it is told. */
export function leaseSecondsFor(core: Core, worker: Worker): number {
  return worker.session.extended ? core.settings.lease_seconds : limits.BASE_LEASE_SECONDS;
}
