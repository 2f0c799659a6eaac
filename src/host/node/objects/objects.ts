import type { BatchesStub, FilesStub, FleetStub, Objects, QueueStub } from '../../../asking/objects.ts';
import type { Log, ObjectHost, Post } from '../../../durable/host.ts';
import type { QueueObjectSettings } from '../../../queue/object/env.ts';
import { mostIdleObjects } from '../descriptors.ts';
import { HeldObjects } from './held-objects.ts';
import { KINDS, type Kind } from './kinds.ts';
import type { Caller } from './life.ts';
import { OpenObjects } from './open-objects.ts';
import { Relays } from './relays.ts';
import { leaving, stubsOf } from './stubs.ts';

export interface NodeObjectsOptions {
  /** The folder with a folder for each queue id. */
  dataDir: string;
  /** The settings as bindings: texts by name. */
  settings: QueueObjectSettings;
  post: Post;
  log: Log;
  /** A sync failed, so acknowledged data cannot be kept any more: the process has to end. */
  fatal(error: Error): void;
}

export interface NodeObjects {
  /** The stubs of all objects, for the gateway. */
  stubs: Objects;
  /** Closes all sockets once their peers have what they must know, then all databases. No call may follow. */
  close(): Promise<void>;
}

type KindName = keyof typeof KINDS;

/**
 * Makes all objects of a state folder in this process. Objects whose alarms are set wake by themselves; a call makes
 * the others.
 */
export function createNodeObjects(options: NodeObjectsOptions): NodeObjects {
  const { dataDir, settings, post, log, fatal } = options;
  const held = new HeldObjects({
    dataDir,
    open: new OpenObjects(mostIdleObjects()),
    make: (kind, host: ObjectHost<never>, caller) =>
      (KINDS[kind as KindName] as Kind).make(host, {
        settings,
        objects: objectsFor(caller),
        post: (reach) => (url, init) => leaving(caller, () => post(reach)(url, init)),
        relayMetrics: () => relays.metrics(host.queueId),
      }),
    log,
    fatal,
  });
  const relays = new Relays(settings, objectsFor(null), log);

  function objectsFor(caller: Caller | null, inLine = false): Objects {
    const stub = (kind: KindName, queueId: string) =>
      makeStub[kind]({ held: held.of(kind, queueId), caller, inLine });
    return {
      queue: (queueId) => stub('queue', queueId) as unknown as QueueStub,
      fleet: (queueId) => stub('fleet', queueId) as unknown as FleetStub,
      batches: (queueId) => stub('batches', queueId) as unknown as BatchesStub,
      files: (queueId) => stub('files', queueId) as unknown as FilesStub,
      relay: (queueId, workerId) => relays.stub(queueId, workerId, caller),
    };
  }

  void held.wakeAll();
  return {
    stubs: objectsFor(null, true),
    close: async () => {
      relays.leave();
      await held.stop();
    },
  };
}

const makeStub = Object.fromEntries(
  Object.entries(KINDS).map(([name, kind]) => [name, stubsOf(kind)]),
) as Record<KindName, ReturnType<typeof stubsOf>>;
