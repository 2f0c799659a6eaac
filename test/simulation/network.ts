import { decodeRecords, PING_TEXT, PONG_TEXT } from '../../src/protocol/index.ts';
import type { Socket, SocketEvents } from '../../src/worker/session/socket.ts';
import { Random } from '../support/random.ts';
import type { Planned, Timeline } from './timeline.ts';
import { brief, frameText, recordText, type Trace } from './trace.ts';

type Message =
  | { kind: 'opened' }
  | { kind: 'text'; text: string }
  | { kind: 'binary'; data: Uint8Array }
  | { kind: 'ping' }
  | { kind: 'pong' }
  | { kind: 'close'; code: number; reason: string }
  /** The other end's process is gone; its kernel says so. */
  | { kind: 'gone' };

/** The server's half of a connection. */
export interface ServerEnd {
  text(text: string): void;
  binary(data: Uint8Array): void;
  closed(code: number): void;
}

/** A message that takes longer is a fault, and those are planned, ms. */
const SLOWEST_MS = 400;
/** How long TCP takes to give up a peer that says nothing, ms. */
const TCP_GIVES_UP_MS = { from: 60_000, to: 150_000 };

/** One direction: never reordered, and what is on the way can be held up or lost. */
class Pipe {
  isCut = false;
  stalledUntil = 0;
  readonly #waiting: Message[] = [];
  readonly #timeline: Timeline;
  readonly #latency: () => number;
  readonly #deliver: (message: Message) => void;
  readonly #notBefore: () => number;
  #lastAt = 0;

  constructor(
    timeline: Timeline,
    latency: () => number,
    notBefore: () => number,
    deliver: (message: Message) => void,
  ) {
    this.#timeline = timeline;
    this.#latency = latency;
    this.#notBefore = notBefore;
    this.#deliver = deliver;
  }

  push(message: Message): void {
    if (this.isCut) return;
    this.#lastAt = Math.max(this.#lastAt, this.#timeline.now + this.#latency());
    this.#waiting.push(message);
    this.#timeline.at(this.#lastAt, () => this.#pump());
  }

  cut(): void {
    this.isCut = true;
    this.#waiting.length = 0;
  }

  #pump(): void {
    if (this.isCut) return;
    const from = Math.max(this.stalledUntil, this.#notBefore());
    if (from > this.#timeline.now) {
      this.#timeline.at(from, () => this.#pump());
      return;
    }
    const message = this.#waiting.shift();
    if (message) this.#deliver(message);
  }
}

/** What a connection needs to know of its worker's process. */
export interface ClientProcess {
  readonly name: string;
  readonly boot: string;
  readonly isAlive: boolean;
  /** Nothing reaches it before this time: it stands still. */
  readonly frozenUntil: number;
}

/** And of the server's process. */
interface ServerProcess {
  /** Epoch ms by its own wall clock. */
  readonly now: number;
  /** Epoch ms until which it stands still. */
  readonly frozenUntil: number;
}

/** One WebSocket between a worker's process and the server. */
export class Link {
  readonly name: string;
  readonly channel: 'control' | 'answer';
  readonly process: ClientProcess;
  readonly #timeline: Timeline;
  readonly #trace: Trace;
  readonly #random: Random;
  readonly #up: Pipe;
  readonly #down: Pipe;
  readonly #events: SocketEvents;
  readonly #serverProcess: ServerProcess;
  #client: 'open' | 'closed' = 'open';
  #server: 'none' | 'open' | 'closed' = 'none';
  #end: ServerEnd | null = null;
  #serverNotice: Planned | null = null;
  isBroken = false;
  /** The worker's process has destroyed it, though what had come by then may still be told. */
  isGivenUp = false;
  /** A first frame of the worker reached the server. */
  isHeard = false;
  /** Epoch ms of the last frame, our workers' pings included, that reached the server. */
  heardAt = 0;

  constructor(
    ports: {
      timeline: Timeline;
      trace: Trace;
      seed: number;
      latencyMs: number;
      server: ServerProcess;
    },
    name: string,
    channel: 'control' | 'answer',
    process: ClientProcess,
    events: SocketEvents,
  ) {
    this.name = name;
    this.channel = channel;
    this.process = process;
    this.#timeline = ports.timeline;
    this.#trace = ports.trace;
    this.#random = new Random(ports.seed, `link ${name}`);
    this.#events = events;
    this.#serverProcess = ports.server;
    const latency = () => 1 + this.#random.wait(ports.latencyMs, SLOWEST_MS);
    this.#up = new Pipe(
      ports.timeline,
      latency,
      () => this.#whenServerReads(),
      (message) => this.#atServer(message),
    );
    const frozen = () => process.frozenUntil;
    this.#down = new Pipe(ports.timeline, latency, frozen, (message) => this.#atClient(message));
  }

  /** The worker still waits for the server to answer its dial. */
  get isDialling(): boolean {
    return this.#client === 'open' && this.#server === 'none';
  }

  /** Live at both ends as far as either knows. */
  get isOpen(): boolean {
    return this.#client === 'open' && this.#server === 'open' && !this.isBroken;
  }

  readonly socket: Socket = {
    send: (data) => {
      if (this.#client !== 'open') return;
      this.#say('→', data);
      this.#up.push(
        typeof data === 'string' ? { kind: 'text', text: data } : { kind: 'binary', data: data.slice() },
      );
    },
    ping: () => this.#up.push({ kind: 'ping' }),
    close: (code, reason) => this.#up.push({ kind: 'close', code, reason }),
    destroy: () => {
      if (this.#client === 'closed') return;
      this.isGivenUp = true;
      this.#up.push({ kind: 'gone' });
      this.#timeline.after(0, () => this.#clientClosed(1006, 'destroyed'));
    },
  };

  accepted(end: ServerEnd): void {
    this.#server = 'open';
    this.heardAt = this.#serverProcess.now;
    this.#end = end;
    this.#down.push({ kind: 'opened' });
  }

  refused(): void {
    this.#down.push({ kind: 'gone' });
  }

  sendDown(data: string | Uint8Array): void {
    if (this.#server !== 'open') return;
    this.#say('←', data);
    this.#down.push(
      typeof data === 'string' ? { kind: 'text', text: data } : { kind: 'binary', data: data.slice() },
    );
  }

  closeDown(code: number, reason: string): void {
    if (this.#server !== 'open') return;
    this.#trace.say(`${this.name} ← close ${code} ${reason}`);
    this.#down.push({ kind: 'close', code, reason });
  }

  stall(direction: 'up' | 'down', until: number): void {
    const pipe = direction === 'up' ? this.#up : this.#down;
    pipe.stalledUntil = Math.max(pipe.stalledUntil, until);
  }

  /** What is on the way is lost; each side sees the end soon, or not before TCP gives up. */
  cut(unseenBy: 'nobody' | 'worker' | 'queue' | 'both'): void {
    if (this.isBroken) return;
    this.isBroken = true;
    this.#up.cut();
    this.#down.cut();
    const delay = (unseen: boolean) =>
      unseen ? this.#random.int(TCP_GIVES_UP_MS.from, TCP_GIVES_UP_MS.to) : this.#random.int(0, 1500);
    const atClient = delay(unseenBy === 'worker' || unseenBy === 'both');
    const atServer = delay(unseenBy === 'queue' || unseenBy === 'both');
    const tellClient = () => {
      const thawed = this.process.frozenUntil;
      if (thawed > this.#timeline.now) this.#timeline.at(thawed, tellClient);
      else this.#clientClosed(1006, 'connection lost');
    };
    this.#timeline.after(atClient, tellClient);
    const tellServer = () => {
      const readsFrom = this.#whenServerReads();
      if (readsFrom > this.#timeline.now) this.#serverNotice = this.#timeline.at(readsFrom, tellServer);
      else this.#serverClosed(1006);
    };
    this.#serverNotice = this.#timeline.after(atServer, tellServer);
  }

  /**
   * The worker's process is gone. Its kernel says so, unless the power is gone too, or nothing gets through:
   * a `register` held up until its worker's next process has registered could not be told from a newer one.
   */
  clientDied(isPowerLoss: boolean): void {
    this.#client = 'closed';
    if (isPowerLoss || this.#up.stalledUntil > this.#timeline.now) this.cut('queue');
    else this.#up.push({ kind: 'gone' });
  }

  serverDied(isPowerLoss: boolean): void {
    this.#server = 'closed';
    this.#end = null;
    if (this.#serverNotice) this.#serverNotice.run = null;
    if (isPowerLoss) this.cut('worker');
    else this.#down.push({ kind: 'gone' });
  }

  /** Its timers come first when it goes on. */
  #whenServerReads(): number {
    return this.#serverProcess.frozenUntil + 1;
  }

  #atServer(message: Message): void {
    if (this.#server !== 'open') return;
    // The runtime answers WebSocket pings and tells nobody.
    if (message.kind !== 'ping') this.heardAt = this.#serverProcess.now;
    if (message.kind === 'text') {
      // The runtime answers these by itself on the control socket.
      if (message.text === PING_TEXT && this.channel === 'control')
        this.#down.push({ kind: 'text', text: PONG_TEXT });
      else {
        this.isHeard = true;
        this.#end?.text(message.text);
      }
    } else if (message.kind === 'binary') this.#end?.binary(message.data);
    else if (message.kind === 'ping') this.#down.push({ kind: 'pong' });
    else if (message.kind === 'close') {
      this.#down.push(message);
      this.#serverClosed(message.code);
    } else if (message.kind === 'gone') this.#serverClosed(1006);
  }

  #atClient(message: Message): void {
    if (this.#client !== 'open' || !this.process.isAlive) return;
    if (message.kind === 'opened') this.#events.opened();
    else if (message.kind === 'text') this.#events.text(message.text);
    else if (message.kind === 'binary') this.#events.binary(message.data);
    else if (message.kind === 'pong') this.#events.pong();
    else if (message.kind === 'close') {
      this.#up.push(message);
      this.#clientClosed(message.code, message.reason);
    } else this.#clientClosed(1006, 'connection reset');
  }

  #clientClosed(code: number, reason: string): void {
    if (this.#client === 'closed') return;
    this.#client = 'closed';
    if (!this.process.isAlive) return;
    this.#trace.say(`${this.name} closed at the worker: ${code} ${reason}`);
    this.#events.closed({ code, reason });
  }

  #serverClosed(code: number): void {
    if (this.#server !== 'open') return;
    this.#server = 'closed';
    this.#trace.say(`${this.name} closed at the queue: ${code}`);
    this.#end?.closed(code);
  }

  #say(arrow: string, data: string | Uint8Array): void {
    if (data === PING_TEXT || data === PONG_TEXT) return;
    const isFrame = typeof data === 'string' || this.channel === 'control';
    if (isFrame)
      this.#trace.say(`${this.name} ${arrow} ${brief(typeof data === 'string' ? data : frameText(data))}`);
    else
      for (const record of decodeRecords(data))
        this.#trace.say(`${this.name} ${arrow} ${recordText(record)}`);
  }
}
