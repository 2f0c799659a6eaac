import type { Objects } from '../../asking/objects.ts';
import type { Post } from '../../durable/host.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import type { RelayMetrics } from '../rpc.ts';

/** What the object needs beside its host. */
export interface QueueEnv {
  settings: QueueObjectSettings;
  objects: Pick<Objects, 'fleet' | 'files' | 'relay'>;
  /** How webhooks leave. */
  post: Post;
  /** Of all relays of this queue id; left out: the host does not know them. */
  relayMetrics?(): RelayMetrics;
}

/** Settings the object reads. */
export interface QueueObjectSettings extends QueueSettingBindings {
  /** Key of the MACs in the addresses of payloads and results. */
  FILE_KEY_SECRET?: string;
}
