import type { Filter } from '../../asking/filters.ts';
import type { CallsOf } from '../../durable/calls.ts';
import type { HostSocket, ObjectHost, Post } from '../../durable/host.ts';
import type { FileObject } from '../../files/object.ts';
import type { JobFileCalls } from '../../files/put-job-file.ts';
import type { FleetObject } from '../../fleet/object.ts';
import { fileKeyMac } from '../../protocol/index.ts';
import type { RelayCalls } from '../../relay/calls.ts';
import { type QueueSettingBindings, settingsFromBindings } from '../../settings/queue-settings.ts';
import type { Queue } from '../queue.ts';
import type { RelayMetrics } from '../rpc.ts';
import type { Connection, Ports } from '../store/ports.ts';
import type { KeptOfWorker } from './sockets.ts';

/** The other objects that the queue object asks. */
export interface Asks {
  fleet(queueId: string): Pick<CallsOf<FleetObject>, 'record'>;
  files(queueId: string): JobFileCalls & Pick<CallsOf<FileObject>, 'content'>;
  relay(queueId: string, workerId: string): RelayCalls;
}

/** The settings and ports that the queue object gets beside its host. */
export interface QueueEnv {
  settings: QueueObjectSettings;
  objects: Asks;
  /** Posts webhooks. */
  post: Post;
  /** The filters that look at results before they are stored; left out: there are none. */
  filters?: readonly Filter[] | undefined;
  /** Returns the metrics of all relays of this queue id; left out if the host does not know them. */
  relayMetrics?(): RelayMetrics;
}

/** The settings that the queue object reads. */
export interface QueueObjectSettings extends QueueSettingBindings {
  /** The key of the MACs in the addresses of payloads and results. */
  FILE_KEY_SECRET?: string;
}

/** Reads the settings of the queue with this id from the bindings. */
export async function givenSettings(
  settings: QueueObjectSettings,
  queue_id: string,
): Promise<ConstructorParameters<typeof Queue>[1]> {
  const secret = settings.FILE_KEY_SECRET;
  const file_key_mac = secret ? await fileKeyMac(secret, queue_id) : '';
  return { queue_id, file_key_mac, ...settingsFromBindings(settings) };
}

interface PortParts extends Pick<Ports, 'tellFleet' | 'tellEnded'> {
  objects: Pick<Asks, 'relay'>;
  connection(socket: HostSocket<KeptOfWorker>): Connection;
  /** Does something that leaves the object, once the work that wants it is done. */
  defer(effect: () => void): void;
}

/** Makes the ports of the rules from the host. */
export function portsOf(
  host: ObjectHost<KeptOfWorker>,
  { objects, connection, defer, tellFleet, tellEnded }: PortParts,
): Ports {
  const relayOf = (workerId: string) => objects.relay(host.queueId, workerId);
  /** Asks a relay, whose failure is ignored: a relay that cannot be reached has lost its streams. */
  const tell = (ask: () => Promise<void>) => defer(() => host.background(ask().catch(() => {})));
  return {
    sql: host.sql,
    alarm: host.alarm,
    undoable: (work) => {
      try {
        host.transaction(work);
        return null;
      } catch (error) {
        return String(error);
      }
    },
    now: () => host.now(),
    random: randomNumbers(),
    connections: () => host.sockets().map(connection),
    breakStream: (workerId, stream, reason, where) =>
      tell(() => relayOf(workerId).breakStream(stream, reason, where)),
    closeAnswers: (workerId) => tell(() => relayOf(workerId).closeSockets()),
    tellFleet: (event) => defer(() => tellFleet(event)),
    ...(tellEnded && { tellEnded: (job, ending) => defer(() => tellEnded(job, ending)) }),
    log: host.log,
  };
}

/** Returns random numbers drawn in advance: a stored job takes eight, and drawing one costs as much as drawing many. */
function randomNumbers(): () => number {
  const words = new Uint32Array(256);
  let left = 0;
  return () => {
    if (left === 0) left = crypto.getRandomValues(words).length;
    left -= 1;
    return words[left]! / 2 ** 32;
  };
}
