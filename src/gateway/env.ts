import type { QueueRpc } from '../queue/calls.ts';
import type { RelayCalls } from '../relay/calls.ts';

/** What the gateway is given by the runtime. */
export interface Env {
  QUEUE: ObjectNamespace<QueueRpc>;
  RELAY: ObjectNamespace<RelayCalls>;
  /** JSON array of TokenEntry (auth.ts). Empty or absent: no token is asked for, loopback only. */
  TOKENS?: string;
  /** Made anew by the launcher at every start; absent on Cloudflare, where nobody stops the process. */
  INTERNAL_SECRET?: string;
  /** Read by the queue object: seconds it waits for a worker whose socket closed. */
  RECONNECT_GRACE_SECONDS?: string;
  /** Read by the queue object: how often workers of ours ping it, seconds. */
  PING_SECONDS?: string;
  /** Read by the queue object: how long settled jobs are kept, and its bounds (queue/ports.ts). */
  RETENTION_SECONDS?: string;
  MAX_PENDING?: string;
  MAX_PENDING_PER_TENANT?: string;
  MAX_WAITING?: string;
  MAX_WAITING_PER_TENANT?: string;
}

/** The part of a DurableObjectNamespace that is used here, so that plain Node can stand in for it. */
export interface ObjectNamespace<Calls> {
  idFromName(name: string): unknown;
  get(id: never): Calls & { fetch(input: Request | string, init?: RequestInit): Promise<Response> };
}

/** The object of that name. Ask anew for every call: a stub that failed once stays broken. */
export function objectNamed<Calls>(namespace: ObjectNamespace<Calls>, name: string) {
  return namespace.get(namespace.idFromName(name) as never);
}
