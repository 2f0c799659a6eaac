import type { CallsOf } from '../../durable/calls.ts';
import type { Post } from '../../durable/host.ts';
import type { JobFileCalls } from '../../files/put-job-file.ts';
import type { FleetObject } from '../../fleet/object.ts';
import type { RelayCalls } from '../../relay/calls.ts';
import type { QueueSettingBindings } from '../../settings/queue-settings.ts';
import type { RelayMetrics } from '../rpc.ts';

/** The other objects that the queue object asks. */
export interface Asks {
  fleet(queueId: string): Pick<CallsOf<FleetObject>, 'record'>;
  files(queueId: string): JobFileCalls;
  relay(queueId: string, workerId: string): RelayCalls;
}

/** What the queue object needs beside its host. */
export interface QueueEnv {
  settings: QueueObjectSettings;
  objects: Asks;
  /** Posts webhooks. */
  post: Post;
  /** Returns the metrics of all relays of this queue id; left out if the host does not know them. */
  relayMetrics?(): RelayMetrics;
}

/** The settings that the queue object reads. */
export interface QueueObjectSettings extends QueueSettingBindings {
  /** The key of the MACs in the addresses of payloads and results. */
  FILE_KEY_SECRET?: string;
}
