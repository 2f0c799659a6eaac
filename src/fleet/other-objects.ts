import type { BatchesRpc } from '../batches/rpc.ts';
import { DEFAULT_QUEUE } from '../settings/queue-settings.ts';
import type { FleetRpc, QueueTells } from './rpc.ts';

/** Of a DurableObjectNamespace what is used here. */
interface Namespace {
  getByName(name: string): unknown;
}

/** Where the fleet object finds the others. */
export interface ObjectNamespaces {
  QUEUE: Namespace;
  BATCHES: Namespace;
  FLEET: Namespace;
}

/** The objects that a fleet object calls; asked for anew each time, since a stub that failed once stays broken. */
export class OtherObjects {
  readonly #namespaces: ObjectNamespaces;
  readonly #queueId: string;

  constructor(namespaces: ObjectNamespaces, queueId: string) {
    this.#namespaces = namespaces;
    this.#queueId = queueId;
  }

  queue(): QueueTells {
    return this.#namespaces.QUEUE.getByName(this.#queueId) as QueueTells;
  }

  batches(): Pick<BatchesRpc, 'backlog'> {
    return this.#namespaces.BATCHES.getByName(this.#queueId) as BatchesRpc;
  }

  /** Sign-ins of all queues are kept in one place. */
  fleetOfDefaultQueue(): Pick<FleetRpc, 'signedIn'> {
    return this.#namespaces.FLEET.getByName(DEFAULT_QUEUE) as FleetRpc;
  }
}
