import type { CallsOf } from '../../durable/calls.ts';
import type { Post } from '../../durable/host.ts';
import type { JobFileCalls } from '../../files/put-job-file.ts';
import type { FleetObject } from '../../fleet/object.ts';
import type { RelayCalls } from '../../relay/calls.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import type { RelayMetrics } from '../rpc.ts';

/** Whom the object asks. */
export interface Asks {
  fleet(queueId: string): Pick<CallsOf<FleetObject>, 'record'>;
  files(queueId: string): JobFileCalls;
  relay(queueId: string, workerId: string): RelayCalls;
}

/** What the object needs beside its host. */
export interface QueueEnv {
  settings: QueueObjectSettings;
  objects: Asks;
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
