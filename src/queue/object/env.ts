import type { FileRpc } from '../../files/rpc.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';

/** Bindings and settings the object reads. */
export interface QueueEnv extends QueueSettingBindings {
  QUEUE: DurableObjectNamespace;
  RELAY: DurableObjectNamespace;
  FLEET: DurableObjectNamespace;
  FILE: { getByName(queueId: string): FileRpc };
  /** Set: this object holds the relays of its workers. Else each has an object of its own. */
  RELAYS_IN_QUEUE?: string;
  /** Reaches private addresses too, for webhooks to hosts that the operator named so; absent on Cloudflare. */
  PRIVATE_NETWORK?: Fetcher;
  /** Key of the MACs in the addresses of payloads and results. */
  FILE_KEY_SECRET?: string;
}
