import type { Filter } from '../../../asking/filters.ts';
import type {
  BatchesStub,
  FilesStub,
  FleetStub,
  KeptRequestsStub,
  Objects,
  QueueStub,
  RelayStub,
  ResponsesStub,
} from '../../../asking/objects.ts';
import { BatchesObject } from '../../../batches/object.ts';
import type { Log, ObjectHost, Post } from '../../../durable/host.ts';
import { alertingWith } from '../../../features/alerts/object/alerting.ts';
import type { SendMail } from '../../../features/alerts/object/send.ts';
import { filtersOf } from '../../../features/filters.ts';
import { KeptRequestsObject } from '../../../features/kept-requests/object/object.ts';
import { keptSettings } from '../../../features/kept-requests/settings.ts';
import { responsesAsk } from '../../../features/responses/gateway/asks.ts';
import { ResponsesObject } from '../../../features/responses/object/object.ts';
import { responsesSettings } from '../../../features/responses/object/settings.ts';
import { FileObject } from '../../../files/object.ts';
import { FleetObject } from '../../../fleet/object.ts';
import { batchesAsk } from '../../../gateway/objects/batches.ts';
import type { BrokenReason } from '../../../protocol/index.ts';
import type { QueueObjectSettings } from '../../../queue/object/env.ts';
import { QueueObject } from '../../../queue/object/object.ts';
import type { RelayMetrics } from '../../../queue/rpc.ts';
import { Relays } from '../answers/relays.ts';
import { mostIdleObjects } from '../descriptors.ts';
import { type ActingOwner, HeldObjects } from './held-objects.ts';
import type { Caller } from './life.ts';
import { OpenObjects } from './open-objects.ts';
import { leaving, type StubOf, stubsOf } from './stubs.ts';

/** The relays in other processes. */
export interface RelaysElsewhere {
  breakStream(
    queueId: string,
    workerId: string,
    stream: number,
    reason: BrokenReason,
    where?: 'any home',
  ): void;
  /** Has a worker dial its answer socket again, whichever process has it. */
  closeSockets(queueId: string, workerId: string): void;
  /** Sums the figures of these relays. */
  figures(queueId: string): RelayMetrics;
}

const NOWHERE: RelaysElsewhere = {
  breakStream: () => {},
  closeSockets: () => {},
  figures: () => ({ streams: 0, received_bytes: 0 }),
};

interface NodeObjectsOptions {
  /** The folder with a folder for each queue id. */
  dataDir: string;
  /** The settings in the form of bindings: texts by name. */
  settings: QueueObjectSettings;
  post: Post;
  /** Sends mail; null or left out: nobody is sent any. */
  mail?: SendMail | null;
  /** The relays in gateway processes; left out: there are none. */
  elsewhere?: RelaysElsewhere;
  log: Log;
  /** The owner of the journal that stores what the objects commit; left out: there is none. */
  owner?: ActingOwner | undefined;
  /** Called when a sync failed, so that acknowledged data cannot be kept any more: the process has to end. */
  fatal(error: Error): void;
}

export interface NodeObjects {
  /** The stubs of all objects, for the gateway. */
  stubs: Objects;
  /** The relays of this process. */
  relays: Relays;
  /** The filters of requests and answers, for the gateway; undefined: there are none. */
  filters: readonly Filter[] | undefined;
  /** Closes all sockets once their peers have what they must know, then all databases. No call may follow. */
  close(): Promise<void>;
}

type KindName = keyof typeof KINDS;

/**
 * Makes all objects of a state folder in this process. Objects whose alarms are set wake by themselves; a call makes
 * the others.
 */
export function createNodeObjects(options: NodeObjectsOptions): NodeObjects {
  const { dataDir, settings, post, mail = null, elsewhere = NOWHERE, log, owner, fatal } = options;
  const held = new HeldObjects({
    dataDir,
    open: new OpenObjects(mostIdleObjects()),
    make: (kind, host: ObjectHost<never>, caller) =>
      (KINDS[kind as KindName] as Kind).make(host, {
        settings,
        objects: objectsFor(caller),
        post: (reach) => (url, init) => leaving(caller, () => post(reach)(url, init)),
        filters,
        mail: mail && ((...sent) => leaving(caller, () => mail(...sent))),
        relayMetrics: () => sumOf(relays.metrics(host.queueId), elsewhere.figures(host.queueId)),
      }),
    log,
    owner,
    fatal,
  });
  const relays = new Relays(settings, objectsFor(null), log);
  const filters = filtersOf({ settings, post, objects: objectsFor(null), log });

  function objectsFor(caller: Caller | null, inLine = false): Objects {
    const stub = (kind: KindName, queueId: string) =>
      makeStub[kind]({ held: held.of(kind, queueId), caller, inLine });
    return {
      queue: (queueId) => stub('queue', queueId) as unknown as QueueStub,
      fleet: (queueId) => stub('fleet', queueId) as unknown as FleetStub,
      batches: (queueId) => stub('batches', queueId) as unknown as BatchesStub,
      files: (queueId) => stub('files', queueId) as unknown as FilesStub,
      responses: (queueId) => stub('responses', queueId) as unknown as ResponsesStub,
      keptRequests: (queueId) => stub('keptRequests', queueId) as unknown as KeptRequestsStub,
      relay: (queueId, workerId) =>
        caller === null ? relays.stub(queueId, workerId, null) : everywhere(caller, queueId, workerId),
    };
  }

  /** Returns the relay of a worker for an object, whose calls concern the relays in all processes. */
  function everywhere(caller: Caller, queueId: string, workerId: string): RelayStub {
    const own = relays.stub(queueId, workerId, caller);
    const tell = (call: () => void) => leaving(caller, async () => call());
    return {
      ...own,
      breakStream: async (stream, reason, where) => {
        await own.breakStream(stream, reason, where);
        await tell(() => elsewhere.breakStream(queueId, workerId, stream, reason, where));
      },
      closeSockets: async () => {
        await own.closeSockets();
        await tell(() => elsewhere.closeSockets(queueId, workerId));
      },
    };
  }

  void held.wakeAll();
  return {
    stubs: objectsFor(null, true),
    relays,
    filters,
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
  /** The filters of requests and answers; undefined: there are none. */
  filters: readonly Filter[] | undefined;
  mail: SendMail | null;
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
    make: async (host, { settings, objects, post, mail }) =>
      new FleetObject(host, settings, objects, alertingWith(settings, { post, mail })),
  },
  batches: {
    prototype: BatchesObject.prototype,
    make: async (host, { settings, objects, post, filters }) =>
      new BatchesObject(host, batchesAsk({ ...settings, objects, filters }, host.queueId), {
        settings,
        post,
      }),
  },
  files: {
    prototype: FileObject.prototype,
    make: async (host, { objects }) => new FileObject(host, objects, null),
  },
  keptRequests: {
    prototype: KeptRequestsObject.prototype,
    make: async (host, { settings }) => new KeptRequestsObject(host, keptSettings(settings)),
  },
  responses: {
    prototype: ResponsesObject.prototype,
    make: async (host, { settings, objects, post, filters }) =>
      new ResponsesObject(
        host,
        responsesSettings(settings),
        responsesAsk({ ...settings, objects, filters }, host.queueId),
        { settings, post },
      ),
  },
} satisfies Record<string, Kind>;

const makeStub = Object.fromEntries(
  Object.entries(KINDS).map(([name, kind]) => [name, stubsOf(kind)]),
) as Record<KindName, ReturnType<typeof stubsOf>>;

function sumOf(one: RelayMetrics, other: RelayMetrics): RelayMetrics {
  return {
    streams: one.streams + other.streams,
    received_bytes: one.received_bytes + other.received_bytes,
  };
}
