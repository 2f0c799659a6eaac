import type { FleetStub } from '../../src/asking/objects.ts';
import type { BrokenReason } from '../../src/protocol/index.ts';
import type { Oracle } from './oracle.ts';
import type { Plan } from './plan.ts';
import type { ProcessTimeline } from './process-timeline.ts';
import type { Trace } from './trace.ts';

/** What a queue object is given in the simulation. */
export interface QueueHostPorts {
  plan: Plan;
  /** Of the server's process. */
  timeline: ProcessTimeline;
  trace: Trace;
  oracle: Oracle;
  breakStream(worker: string, stream: number, reason: BrokenReason): void;
  /** The fleet object, for as long as this life of the server lasts. */
  fleet(): Pick<FleetStub, 'record'>;
}
