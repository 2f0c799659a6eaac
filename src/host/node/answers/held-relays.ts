import type { Objects } from '../../../asking/objects.ts';
import type { RelayMetrics } from '../../../queue/rpc.ts';
import {
  type RelayClock,
  RelayHost,
  type WorkerSocket,
  type WorkerSocketEvents,
} from '../../../relay/object/host.ts';
import type { RelaySettings } from '../../../relay/ports.ts';

/** A relay, and when its worker opened the newest answer socket, ms. */
interface Held {
  host: RelayHost;
  openedAt: number;
}

/** The relays of a queue id's workers. */
interface OfQueue {
  relays: Map<string, Held>;
  /** The bytes received by relays that have been dropped since. */
  receivedBefore: number;
}

/** The relays of a process, one for each worker; those that are not in use are dropped. */
export class HeldRelays {
  readonly #settings: RelaySettings;
  readonly #objects: Objects;
  readonly #clock: RelayClock;
  /** The relays by queue id. */
  readonly #queues = new Map<string, OfQueue>();

  constructor(settings: RelaySettings, objects: Objects, clock: RelayClock) {
    this.#settings = settings;
    this.#objects = objects;
    this.#clock = clock;
  }

  /** Returns the relay of a worker, which is made if there is none. */
  of(queueId: string, workerId: string): RelayHost {
    return this.#held(queueId, workerId).host;
  }

  /**
   * Hands a worker's answer socket to its relay.
   * @param ageMs the time since the worker opened it: news of sockets at other processes may come late
   * @returns null: the relay has a newer one
   */
  attach(queueId: string, workerId: string, socket: WorkerSocket, ageMs: number): WorkerSocketEvents | null {
    const held = this.#held(queueId, workerId);
    const openedAt = this.#clock.now() - ageMs;
    if (held.host.isConnected && held.openedAt > openedAt) return null;
    held.openedAt = openedAt;
    return held.host.connected(socket);
  }

  /** Returns the figures of the relays by queue id. */
  figures(): Record<string, RelayMetrics> {
    return Object.fromEntries([...this.#queues.keys()].map((queueId) => [queueId, this.figuresOf(queueId)]));
  }

  figuresOf(queueId: string): RelayMetrics {
    const { relays, receivedBefore } = this.#of(queueId);
    let [streams, received_bytes] = [0, receivedBefore];
    for (const { host } of relays.values()) {
      streams += host.streams;
      received_bytes += host.received;
    }
    return { streams, received_bytes };
  }

  /** Tells callers why their answers end, and workers to dial again, before the process ends. */
  leave(): void {
    for (const { relays } of this.#queues.values()) for (const { host } of relays.values()) host.leave();
  }

  #held(queueId: string, workerId: string): Held {
    const of = this.#of(queueId);
    const known = of.relays.get(workerId);
    if (known) return known;
    // Looking through all relays costs little: there are few workers, and a new one is rare.
    for (const [id, { host }] of of.relays) {
      if (!host.isIdle) continue;
      of.receivedBefore += host.received;
      of.relays.delete(id);
    }
    const held = { host: new RelayHost(this.#settings, this.#objects, this.#clock), openedAt: 0 };
    of.relays.set(workerId, held);
    return held;
  }

  #of(queueId: string): OfQueue {
    const known = this.#queues.get(queueId);
    if (known) return known;
    const made: OfQueue = { relays: new Map(), receivedBefore: 0 };
    this.#queues.set(queueId, made);
    return made;
  }
}
