import type { Objects } from '../../src/asking/objects.ts';
import { HeldRelays } from '../../src/host/node/answers/held-relays.ts';
import { type LinkEvents, Port } from '../../src/host/node/answers/port.ts';
import { RemotePort } from '../../src/host/node/answers/remote-port.ts';
import { streamIdOf } from '../../src/protocol/index.ts';
import type { CallerSink } from '../../src/relay/stream-ports.ts';
import type { AnswerStream } from '../../src/worker/answers/answer-stream.ts';
import { Answers } from '../../src/worker/answers/answers.ts';
import type { Ports } from '../../src/worker/ports.ts';
import type { Socket } from '../../src/worker/session/socket.ts';
import type { Random } from './random.ts';
import type { VirtualClock } from './virtual-clock.ts';
import { Wire } from './wire.ts';

/**
 * Several processes with relays, and workers whose answer sockets any of them may have, in virtual time. All rules are
 * those of production; sockets are wires that delay, break and lose what is on its way.
 */

const GRACE_SECONDS = 10;
const QUEUE = 'q';

/** A process with relays and a port. */
class Process {
  readonly home: number;
  readonly instance: string;
  readonly held: HeldRelays;
  readonly port: Port;
  isAlive = true;
  readonly wires = new Set<Wire>();

  constructor({ clock }: World, home: number, instance: string) {
    this.home = home;
    this.instance = instance;
    const time = {
      now: () => clock.now(),
      after: (ms: number, run: () => void) =>
        void clock.setTimeout(() => {
          if (this.isAlive) run();
        }, ms),
    };
    const settings = { home, reconnect_grace_seconds: GRACE_SECONDS };
    this.held = new HeldRelays(settings, {} as Objects, time);
    this.port = new Port(settings, time);
  }
}

/** An answer on its way, as its worker and its caller see it. */
export interface Told {
  id: number;
  home: Process;
  size: number;
  received: number;
  /** How it ended for its caller; null: it has not. */
  end: 'whole' | string | null;
  /** The first byte that was not as written, or came twice. */
  fault: string | null;
  stream: AnswerStream;
}

const byteAt = (id: number, offset: number) => (offset * 31 + id * 7 + (offset >> 8)) & 0xff;

class TestWorker {
  readonly id: string;
  readonly answers: Answers;
  wire: Wire | null = null;

  constructor(world: World, id: string) {
    this.id = id;
    const { clock, random } = world;
    const quiet = () => {};
    const ports = {
      clock,
      random: () => random.next(),
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
      dial: (_target, events) => {
        const wire = new Wire(world);
        this.wire = wire;
        let isClosed = false;
        const closed = (code: number) => {
          if (isClosed) return;
          isClosed = true;
          events.closed({ code, reason: '' });
        };
        wire.take(0, {
          message: (message) => (typeof message === 'string' ? events.text(message) : events.binary(message)),
          closed,
        });
        clock.setTimeout(() => {
          if (!world.accept(this, wire)) return closed(1006);
          events.opened();
        }, 1 + random.below(20));
        return {
          send: (data: string | Uint8Array) => wire.send(1, data),
          ping: () => events.pong(),
          close: (code: number) => wire.close(1, code),
          destroy: () => wire.break(),
        } satisfies Socket;
      },
    } as Partial<Ports> as Ports;
    const streamInterval = { minMs: 0, maxMs: 20, rampEvents: 4, manyStreams: 3 };
    this.answers = new Answers(ports, { token: undefined, streamInterval }, { changed: () => {} });
    this.answers.connect('ws://balancer');
  }
}

export class World {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly processes: Process[] = [];
  readonly workers: TestWorker[] = [];
  readonly told: Told[] = [];
  /** The wires between processes that exist, by home and port. */
  readonly #links = new Map<string, Wire>();
  /** All wires between processes that there have been. */
  readonly #linkWires: Wire[] = [];
  #fence = 0;
  #instances = 0;
  isCalm = false;
  /** Whether callers read at all. */
  reads = true;
  readonly #unread: (() => void)[] = [];

  constructor(clock: VirtualClock, random: Random, { homes, workers }: { homes: number; workers: number }) {
    this.clock = clock;
    this.random = random;
    for (let home = 0; home < homes; home++) this.begin(home);
    for (let n = 0; n < workers; n++) this.workers.push(new TestWorker(this, `w${n}`));
  }

  /** The most bytes that were on their way between two processes at a time. */
  get mostLinkBytes(): number {
    return Math.max(...this.#linkWires.map(({ mostBytes }) => mostBytes));
  }

  get alive(): Process[] {
    return this.processes.filter(({ isAlive }) => isAlive);
  }

  /** Starts a process, which all others learn of. */
  begin(home: number): void {
    const process = new Process(this, home, `i${this.#instances++}`);
    for (const other of this.alive) {
      this.#dial(process, other);
      this.#dial(other, process);
    }
    this.processes.push(process);
  }

  kill(process: Process): void {
    process.isAlive = false;
    for (const wire of [...process.wires]) wire.break();
  }

  /** Takes a worker's dial. @returns whether a process answers */
  accept(worker: TestWorker, wire: Wire): boolean {
    if (wire.isOver || this.alive.length === 0) return false;
    const process = this.random.pick(this.alive);
    process.wires.add(wire);
    const socket = {
      send: (message: string | Uint8Array) => wire.send(0, message),
      close: (code: number) => wire.close(0, code),
    };
    const events = process.port.connected(
      QUEUE,
      worker.id,
      socket,
      (newest) => process.held.attach(QUEUE, worker.id, newest, 0)!,
    );
    wire.take(1, {
      message: (message) => {
        if (process.isAlive) events.message(message);
      },
      closed: () => {
        process.wires.delete(wire);
        if (process.isAlive) events.closed();
      },
    });
    return true;
  }

  /** Begins an answer at a worker, and its caller's wait for it. */
  begins(worker: TestWorker, size: number): void {
    const home = this.random.pick(this.alive);
    const id = streamIdOf(++this.#fence, home.home);
    const stream = worker.answers.open(id, () => {});
    const told: Told = { id, home, size, received: 0, end: null, fault: null, stream };
    this.told.push(told);
    void this.#write(worker, told);
    this.clock.setTimeout(() => void this.#read(worker, told), this.random.below(40));
  }

  /** Lets callers go on that did not read. */
  resume(): void {
    for (const goOn of this.#unread.splice(0)) goOn();
  }

  /** Breaks the link by which a home has the sockets of another process. */
  breakLink(): void {
    const links = [...this.#links.values()];
    if (links.length > 0) this.random.pick(links).break();
  }

  async #write(worker: TestWorker, { id, size, stream }: Told): Promise<void> {
    const { random } = this;
    await this.#pause(random.wait(30));
    stream.head({ status: 200, headers: { 'content-type': 'application/octet-stream' } });
    for (let at = 0; at < size && stream.isOpen; ) {
      const piece = new Uint8Array(Math.min(size - at, 1 + random.below(size / 8)));
      for (let index = 0; index < piece.length; index++) piece[index] = byteAt(id, at + index);
      at += piece.length;
      stream.write(piece);
      await this.#pause(random.wait(120));
      await stream.room();
    }
    stream.end();
    worker.answers.finished(stream);
  }

  async #read(worker: TestWorker, told: Told): Promise<void> {
    const { home, id } = told;
    if (!home.isAlive) return;
    const opened = await home.held.of(QUEUE, worker.id).openAnswer(id, null);
    if ('broken' in opened) {
      told.end = opened.broken.message;
      return;
    }
    if (opened.whole) {
      this.#received(told, opened.whole);
      told.end = 'whole';
      return;
    }
    opened.attach({
      write: (data) => {
        this.#received(told, data);
        if (!this.reads) {
          this.#unread.push(() => opened.reads());
          return false;
        }
        if (this.isCalm || !this.random.chance(0.05)) return true;
        this.clock.setTimeout(() => home.isAlive && opened.reads(), this.random.wait(200));
        return false;
      },
      keepAlive: () => {},
      end: () => {
        told.end = 'whole';
      },
      abort: ({ message }) => {
        told.end = message;
      },
    } satisfies CallerSink);
  }

  #received(told: Told, data: Uint8Array): void {
    for (const byte of data) {
      if (byte !== byteAt(told.id, told.received)) told.fault ??= `byte ${told.received}`;
      told.received += 1;
    }
  }

  /** Links a home with the port of another process, and again whenever the link breaks. */
  #dial(home: Process, port: Process): void {
    if (!home.isAlive || !port.isAlive) return;
    const wire = new Wire(this);
    const name = `${home.instance} ${port.instance}`;
    this.#links.set(name, wire);
    this.#linkWires.push(wire);
    home.wires.add(wire);
    port.wires.add(wire);
    let atPort: LinkEvents | null = null;
    let atHome: LinkEvents | null = null;
    wire.take(1, {
      message: (message) => {
        if (port.isAlive) atPort?.message(message);
      },
      closed: () => {
        port.wires.delete(wire);
        if (port.isAlive) atPort?.closed();
      },
    });
    wire.take(0, {
      message: (message) => {
        if (home.isAlive) atHome?.message(message);
      },
      closed: () => {
        home.wires.delete(wire);
        if (home.isAlive) atHome?.closed();
        this.#links.delete(name);
        this.clock.setTimeout(() => this.#dial(home, port), 50 + this.random.below(500));
      },
    });
    this.clock.setTimeout(() => {
      if (wire.isOver || !home.isAlive || !port.isAlive) return;
      const socket = (to: 0 | 1) => ({
        send: (message: string | Uint8Array) => wire.send(to, message),
        close: (code: number) => wire.close(to, code),
      });
      atHome = new RemotePort(socket(1), home.held);
      atPort = port.port.linked(home.home, home.instance, socket(0));
    }, this.random.below(30));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.clock.setTimeout(resolve, ms));
  }
}
