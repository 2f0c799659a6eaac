import type { Objects } from '../../../asking/objects.ts';
import { BatchesObject } from '../../../batches/object.ts';
import type { ObjectHost, Post } from '../../../durable/host.ts';
import { FileObject } from '../../../files/object.ts';
import { FleetObject } from '../../../fleet/object.ts';
import { batchesAsk } from '../../../gateway/batches/ask.ts';
import type { QueueObjectSettings } from '../../../queue/object/env.ts';
import { QueueObject } from '../../../queue/object/object.ts';
import type { RelayMetrics } from '../../../queue/rpc.ts';
import type { StubOf } from './stubs.ts';

/** The parts from which an object is made, beside its host. */
interface MadeWith {
  settings: QueueObjectSettings;
  /** The other objects, as this object asks them. */
  objects: Objects;
  post: Post;
  /** Sums the metrics of all relays of the object's queue id. */
  relayMetrics(): RelayMetrics;
}

/** A class of objects, of which each queue id has one. */
export interface Kind extends StubOf {
  make(host: ObjectHost<never>, made: MadeWith): Promise<object>;
}

/** The kinds of object by the names of their databases. */
export const KINDS = {
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
    make: async (host, { settings, objects }) =>
      new BatchesObject(host, batchesAsk({ ...settings, objects }, host.queueId)),
  },
  files: {
    prototype: FileObject.prototype,
    make: async (host, { objects }) => new FileObject(host, objects, null),
  },
} satisfies Record<string, Kind>;
