import type { Objects, RelayStub } from '../../../asking/objects.ts';
import type { Log } from '../../../durable/host.ts';
import { bounds } from '../../../protocol/index.ts';
import type { RelayMetrics } from '../../../queue/rpc.ts';
import { RelayHost } from '../../../relay/object/host.ts';
import type { QueueSettingBindings } from '../../../settings/queue-settings.ts';
import { UpgradeResponse } from '../http/upgrade.ts';
import type { Caller } from '../objects/life.ts';
import { NodeSocket } from '../objects/socket.ts';
import { leaving } from '../objects/stubs.ts';

/** The relays of a queue id's workers. */
interface OfQueue {
  hosts: Map<string, RelayHost>;
  /** The bytes received by relays that have been dropped since. */
  receivedBefore: number;
}

/**
 * The relays of all workers, outside the objects: the end of a queue's object does not touch answers on their way, and
 * no byte of an answer waits for a disk.
 */
export class Relays {
  readonly #grace: number;
  readonly #objects: Objects;
  readonly #log: Log;
  /** The relays by queue id. */
  readonly #queues = new Map<string, OfQueue>();

  constructor(settings: QueueSettingBindings, objects: Objects, log: Log) {
    this.#grace = Number(settings.RECONNECT_GRACE_SECONDS ?? bounds.RECONNECT_GRACE_SECONDS);
    this.#objects = objects;
    this.#log = log;
  }

  /** Returns the stub of a relay. @param caller the object that asks; null: the gateway */
  stub(queueId: string, workerId: string, caller: Caller | null): RelayStub {
    const relay = () => this.#relay(queueId, workerId);
    const tell = async (call: () => void) => (caller === null ? call() : leaving(caller, async () => call()));
    return {
      breakStream: (stream, reason) => tell(() => relay().breakStream(stream, reason)),
      closeSockets: () => tell(() => relay().closeSocket()),
      connect: async () => new UpgradeResponse((socket) => this.#connected(relay(), socket)),
      open: (stream, more, asked) => relay().open(stream, more, asked),
      openAnswer: (stream, asked) => relay().openAnswer(stream, asked),
      openReplay: (stream, more, signal) => relay().openReplay(stream, more, signal),
    };
  }

  metrics(queueId: string): RelayMetrics {
    const { hosts, receivedBefore } = this.#of(queueId);
    let [streams, received_bytes] = [0, receivedBefore];
    for (const host of hosts.values()) {
      streams += host.streams;
      received_bytes += host.received;
    }
    return { streams, received_bytes };
  }

  /** Tells callers why their answers end, and workers to dial again, before the process ends. */
  leave(): void {
    for (const { hosts } of this.#queues.values()) for (const host of hosts.values()) host.leave();
  }

  #connected(relay: RelayHost, webSocket: ConstructorParameters<typeof NodeSocket>[0]): void {
    const socket = new NodeSocket<never>(webSocket, {
      leave: (effect) => effect(),
      now: () => Date.now(),
      pings: undefined,
      message: (message) => {
        if (!socket.isClosing) this.#guard(() => void events.message(message));
      },
      closed: () => this.#guard(() => events.closed()),
      log: this.#log,
    });
    const events = relay.connected(socket);
  }

  #relay(queueId: string, workerId: string): RelayHost {
    const of = this.#of(queueId);
    const known = of.hosts.get(workerId);
    if (known) return known;
    // Looking through all relays costs little: there are few workers, and a new one is rare.
    for (const [id, host] of of.hosts) {
      if (!host.isIdle) continue;
      of.receivedBefore += host.received;
      of.hosts.delete(id);
    }
    const host = new RelayHost({ reconnect_grace_seconds: this.#grace }, this.#objects, {
      now: () => performance.now(),
      after: (ms, run) => void setTimeout(() => this.#guard(run), ms),
    });
    of.hosts.set(workerId, host);
    return host;
  }

  #of(queueId: string): OfQueue {
    const known = this.#queues.get(queueId);
    if (known) return known;
    const made: OfQueue = { hosts: new Map(), receivedBefore: 0 };
    this.#queues.set(queueId, made);
    return made;
  }

  /** Runs work and logs its error, which must not end the process and with it all other relays. */
  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      const text = (error as Partial<Error> | null)?.stack ?? String(error);
      this.#log('error', 'a relay failed where it should not', { error: text });
    }
  }
}
