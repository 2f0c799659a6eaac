import type { BatchesRpc } from '../batches/rpc.ts';
import type { FileRpc } from '../files/rpc.ts';
import type { AuditCalls, FleetRpc, TokenCalls } from '../fleet/rpc.ts';
import type { QueueRpc } from '../queue/rpc.ts';
import type { RelayCalls } from '../relay/calls.ts';
import type { SchedulerRpc } from '../scheduler/rpc.ts';
import type { QueueSettingBindings } from '../settings/queue-settings.ts';

/** The gateway's bindings. The objects read the settings. */
export interface Env extends QueueSettingBindings {
  QUEUE: ObjectNamespace<QueueRpc>;
  RELAY: ObjectNamespace<RelayCalls>;
  FLEET: ObjectNamespace<FleetRpc & TokenCalls & AuditCalls & SchedulerRpc>;
  BATCHES: ObjectNamespace<BatchesRpc>;
  FILE: ObjectNamespace<FileRpc>;
  /** Set: the queue object holds the relays of its workers. Else each has an object of its own. */
  RELAYS_IN_QUEUE?: string;
  /** JSON array of TokenEntry (auth.ts). Empty or absent: no token is asked for, loopback only. */
  TOKENS?: string;
  /** Key of the MACs in the addresses of payloads and results; without it the gateway answers 503 there. */
  FILE_KEY_SECRET?: string;
  /** Made anew at every start of workerd; absent on Cloudflare, where no process of ours stops workerd. */
  INTERNAL_SECRET?: string;
}

/** The part of a DurableObjectNamespace that is used here, so that plain Node can stand in for it. */
export interface ObjectNamespace<Calls> {
  getByName(name: string): Calls & { fetch(input: Request | string, init?: RequestInit): Promise<Response> };
}

/** The object of that name. Ask anew for every call: a stub that failed once stays broken. */
export function objectNamed<Calls>(namespace: ObjectNamespace<Calls>, name: string) {
  return namespace.getByName(name);
}
