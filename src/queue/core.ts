import type { JobView } from '../protocol/index.ts';
import { CallLedgers } from './call-ledgers.ts';
import { Fences } from './fences.ts';
import { Fleet } from './fleet.ts';
import { Pending } from './pending.ts';
import type { Ports, QueueSettings } from './ports.ts';
import { Transients } from './transients.ts';

/** Someone who asked to hear when a job settles. */
export interface Waiter {
  /** Epoch ms at which it is answered whatever the state. */
  until: number;
  answer(view: JobView | null): void;
}

/** What every verb works on: the ports, and what the object keeps in memory beside its tables. */
export interface Core extends Ports {
  settings: QueueSettings;
  fleet: Fleet;
  transients: Transients;
  callLedgers: CallLedgers;
  fences: Fences;
  pending: Pending;
  waiters: Map<string, Waiter[]>;
}

export function createCore(ports: Ports, settings: QueueSettings): Core {
  return {
    ...ports,
    settings,
    fleet: new Fleet(),
    transients: new Transients(),
    callLedgers: new CallLedgers(ports.now),
    fences: new Fences(ports.sql),
    pending: new Pending(ports.sql),
    waiters: new Map(),
  };
}

/** Something must be looked at by then: moves the alarm only if it is set later, since a move costs a row. */
export function due(core: Core, atMs: number): void {
  const armed = core.alarm.get();
  if (armed === null || armed > atMs) core.alarm.set(atMs);
}
