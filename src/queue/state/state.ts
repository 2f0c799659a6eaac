import { CallLedgers } from '../events/recent-ledger.ts';
import type { Ports, QueueSettings } from '../store/ports.ts';
import { Fences } from './fences.ts';
import { Fleet } from './live-fleet.ts';
import { Transients } from './memory-jobs.ts';
import { Openings } from './openings.ts';
import { Pending } from './pending.ts';
import { Waiters } from './waiters.ts';

/** What every verb works on: the ports, and what the object keeps in memory beside its tables. */
export interface Core extends Ports {
  settings: QueueSettings;
  fleet: Fleet;
  transients: Transients;
  callLedgers: CallLedgers;
  fences: Fences;
  pending: Pending;
  waiters: Waiters;
  openings: Openings;
}

export function createCore(ports: Ports, settings: QueueSettings): Core {
  const openings = new Openings();
  return {
    ...ports,
    settings,
    openings,
    fleet: new Fleet(openings),
    transients: new Transients(),
    callLedgers: new CallLedgers(ports.now),
    fences: new Fences(ports.sql),
    pending: new Pending(ports.sql),
    waiters: new Waiters(),
  };
}

/** Something must be looked at by then: moves the alarm only if it is set later, since a move costs a row. */
export function due(core: Core, atMs: number): void {
  const armed = core.alarm.get();
  if (armed === null || armed > atMs) core.alarm.set(atMs);
}
