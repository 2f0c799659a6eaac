import type { Objects, RelayStub } from '../../../asking/objects.ts';
import type { Log } from '../../../durable/host.ts';
import { atHome, bounds, CLOSE, homeOf, QUEUE_HOME } from '../../../protocol/index.ts';
import type { RelayMetrics } from '../../../queue/rpc.ts';
import type { QueueSettingBindings } from '../../../settings/queue-settings.ts';
import { UpgradeResponse } from '../http/upgrade.ts';
import type { Caller } from '../objects/life.ts';
import { NodeSocket } from '../objects/socket.ts';
import { leaving } from '../objects/stubs.ts';
import { HeldRelays } from './held-relays.ts';
import { Peers } from './peers.ts';
import { Port } from './port.ts';

/**
 * The relays of all workers in this process, outside the objects: the end of a queue's object does not touch answers on
 * their way, and no byte of an answer waits for a disk.
 *
 * Where several processes serve a queue, each has relays for the streams whose home it is, and any of them may have the
 * answer socket of a worker (port.ts).
 */
export class Relays {
  /** The links with other processes. */
  readonly peers: Peers;
  readonly #home: number;
  readonly #log: Log;
  readonly #port: Port;
  readonly #held: HeldRelays;

  /** @param home the number of this process */
  constructor(settings: QueueSettingBindings, objects: Objects, log: Log, home: number = QUEUE_HOME) {
    this.#home = home;
    this.#log = log;
    const reconnect_grace_seconds = Number(
      settings.RECONNECT_GRACE_SECONDS ?? bounds.RECONNECT_GRACE_SECONDS,
    );
    const clock = {
      now: () => performance.now(),
      after: (ms: number, run: () => void) => void setTimeout(() => this.#guard(run), ms),
    };
    this.#held = new HeldRelays({ reconnect_grace_seconds }, objects, clock);
    this.#port = new Port({ home, reconnect_grace_seconds }, clock);
    this.peers = new Peers(home, this.#port, this.#held, log);
  }

  /** Returns the stub of a relay, which breaks streams of this home alone. @param caller the object that asks; null: the gateway */
  stub(queueId: string, workerId: string, caller: Caller | null): RelayStub {
    const relay = () => this.#held.of(queueId, workerId);
    const tell = async (call: () => void) => (caller === null ? call() : leaving(caller, async () => call()));
    return {
      breakStream: (stream, reason, where) =>
        tell(() => {
          const isHere = where === 'any home' || homeOf(stream) === this.#home;
          if (isHere) relay().breakStream(atHome(stream, this.#home), reason);
        }),
      closeSockets: () => tell(() => relay().closeSocket()),
      connect: async () => new UpgradeResponse((socket) => this.#connected(queueId, workerId, socket)),
      open: (stream, more, asked) => relay().open(stream, more, asked),
      openAnswer: (stream, asked) => relay().openAnswer(stream, asked),
      openReplay: (stream, more, signal) => relay().openReplay(stream, more, signal),
    };
  }

  metrics(queueId: string): RelayMetrics {
    return this.#held.figuresOf(queueId);
  }

  /** Returns the figures of the relays of this process by queue id. */
  figures(): Record<string, RelayMetrics> {
    return this.#held.figures();
  }

  /** Closes all answer sockets that workers have dialled here, so that they dial another process. */
  closeSockets(): void {
    this.#port.closeAll(CLOSE.restarting, 'dial again');
  }

  /** Tells callers why their answers end, and workers to dial again, before the process ends. */
  leave(): void {
    this.peers.leave();
    this.#held.leave();
    this.peers.close();
  }

  #connected(
    queueId: string,
    workerId: string,
    webSocket: ConstructorParameters<typeof NodeSocket>[0],
  ): void {
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
    const events = this.#port.connected(
      queueId,
      workerId,
      socket,
      (newest) =>
        // A socket that is opened now is the newest.
        this.#held.attach(queueId, workerId, newest, 0)!,
    );
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
