import type {
  BatchesStub,
  FilesStub,
  FleetStub,
  Objects,
  QueueStub,
  ResponsesStub,
} from '../../../asking/objects.ts';
import { BatchesObject } from '../../../batches/object.ts';
import type { Log, ObjectHost, Post } from '../../../durable/host.ts';
import { responsesAsk } from '../../../features/responses/gateway/asks.ts';
import { ResponsesObject } from '../../../features/responses/object/object.ts';
import { responsesSettings } from '../../../features/responses/object/settings.ts';
import { FileObject } from '../../../files/object.ts';
import { FleetObject } from '../../../fleet/object.ts';
import { batchesAsk } from '../../../gateway/objects/batches.ts';
import type { QueueObjectSettings } from '../../../queue/object/env.ts';
import { QueueObject } from '../../../queue/object/object.ts';
import type { RelayMetrics } from '../../../queue/rpc.ts';
import { mostIdleObjects } from '../descriptors.ts';
import { HeldObjects } from './held-objects.ts';
import type { Caller } from './life.ts';
import { OpenObjects } from './open-objects.ts';
import { Relays } from './relays.ts';
import { leaving, type StubOf, stubsOf } from './stubs.ts';

interface NodeObjectsOptions {
  /** The folder with a folder for each queue id. */
  dataDir: string;
  /** The settings in the form of bindings: texts by name. */
  settings: QueueObjectSettings;
  post: Post;
  log: Log;
  /** Called when a sync failed, so that acknowledged data cannot be kept any more: the process has to end. */
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
      responses: (queueId) => stub('responses', queueId) as unknown as ResponsesStub,
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

/** The parts from which an object is made, beside its host. */
interface MadeWith {
  settings: QueueObjectSettings;
  /** The other objects, for this object to call. */
  objects: Objects;
  post: Post;
  /** Sums the metrics of all relays of the object's queue id. */
  relayMetrics(): RelayMetrics;
}

/** A class of objects, of which each queue id has one. */
interface Kind extends StubOf {
  make(host: ObjectHost<never>, made: MadeWith): Promise<object>;
}

/** The kinds of object by the names of their databases. */
const KINDS = {
  queue: {
    prototype: QueueObject.prototype,
    atOnce: ['request'],
    lent: ['request'],
    opens: 'connect',
    make: (host, made) => QueueObject.create(host, made),
  },
  fleet: {
    prototype: FleetObject.prototype,
    opens: 'watch',
    make: async (host, { settings, objects, post }) => new FleetObject(host, settings, objects, post),
  },
  batches: {
    prototype: BatchesObject.prototype,
    make: async (host, { settings, objects, post }) =>
      new BatchesObject(host, batchesAsk({ ...settings, objects }, host.queueId), { settings, post }),
  },
  files: {
    prototype: FileObject.prototype,
    make: async (host, { objects }) => new FileObject(host, objects, null),
  },
  responses: {
    prototype: ResponsesObject.prototype,
    make: async (host, { settings, objects, post }) =>
      new ResponsesObject(
        host,
        responsesSettings(settings),
        responsesAsk({ ...settings, objects }, host.queueId),
        { settings, post },
      ),
  },
} satisfies Record<string, Kind>;

const makeStub = Object.fromEntries(
  Object.entries(KINDS).map(([name, kind]) => [name, stubsOf(kind)]),
) as Record<KindName, ReturnType<typeof stubsOf>>;
