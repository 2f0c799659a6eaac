import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import WebSocket from 'ws';
import type { HostedObject, HostSocket, ObjectHost } from '../../../../src/durable/host.ts';
import { createServer, type RunningServer } from '../../../../src/host/node/http/server.ts';
import { HeldObjects } from '../../../../src/host/node/objects/held-objects.ts';
import type { Caller } from '../../../../src/host/node/objects/life.ts';
import { OpenObjects } from '../../../../src/host/node/objects/open-objects.ts';
import { type Stub, stubsOf } from '../../../../src/host/node/objects/stubs.ts';

export interface Kept {
  name: string;
}

/** An object whose methods a test gives. */
export class Scripted implements HostedObject<string, Kept> {
  readonly pings = { ping: 'ping?', pong: 'pong.' };
  readonly host: ObjectHost<Kept>;
  readonly other: (queueId: string) => Stub;
  readonly heard: [name: string, message: string | Uint8Array][] = [];
  readonly left: [name: string, code: number | null][] = [];
  readonly alarms: (number | null)[] = [];
  onAlarm: () => void | Promise<void> = () => {};
  onLeave: () => void | Promise<void> = () => {};
  onMessage: (socket: HostSocket<Kept>, message: string | Uint8Array) => void | Promise<void> = () => {};

  constructor(host: ObjectHost<Kept>, other: (queueId: string) => Stub) {
    this.host = host;
    this.other = other;
    host.sql.exec('CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY)');
  }

  keep(key: string): void {
    this.host.sql.exec('INSERT INTO kept (key) VALUES (?)', key);
  }

  async keeps(): Promise<string[]> {
    return this.host.sql.exec('SELECT key FROM kept ORDER BY key').map(({ key }) => String(key));
  }

  /** Runs what the test has written. */
  async run(work: (object: Scripted) => unknown): Promise<unknown> {
    return await work(this);
  }

  /** Like `run`, but nothing is awaited in between. */
  async runNow(work: (object: Scripted, given?: unknown) => unknown, given?: unknown): Promise<unknown> {
    return work(this, given);
  }

  async alarm(setFor: number | null): Promise<void> {
    this.alarms.push(setFor);
    await this.onAlarm();
  }

  opened(socket: HostSocket<Kept>, name: string): void {
    socket.save({ name });
  }

  async message(socket: HostSocket<Kept>, message: string | Uint8Array): Promise<void> {
    this.heard.push([socket.load().name, message]);
    await this.onMessage(socket, message);
  }

  async closed(socket: HostSocket<Kept>, code: number | null): Promise<void> {
    this.left.push([socket.load().name, code]);
  }

  async closeSockets(): Promise<void> {
    await this.onLeave();
  }

  clockSetBack(): void {
    this.keep('clock');
  }
}

const stubOf = stubsOf({ prototype: Scripted.prototype, opens: 'connect' });

/** Objects in a folder of their own, which a test may start again, behind real HTTP. */
export class Held {
  readonly dataDir: string;
  readonly lines: [level: string, message: string, fields: Record<string, unknown>][] = [];
  /** Each that was made, by the ids of queues. */
  readonly made: [queueId: string, object: Scripted][] = [];
  readonly fatal: Error[] = [];
  /** Objects that stay open though nothing happens in them. */
  mostIdle = 1000;
  /** Before each is made; throws where it cannot be. */
  onMake: (host: ObjectHost<never>) => void | Promise<void> = () => {};
  objects!: HeldObjects;
  #server: RunningServer | null = null;

  private constructor(dataDir: string) {
    this.dataDir = dataDir;
    this.start();
  }

  static async make(): Promise<Held> {
    return new Held(await mkdtemp(join(tmpdir(), 'held-')));
  }

  start(): void {
    this.objects = new HeldObjects({
      dataDir: this.dataDir,
      open: new OpenObjects(this.mostIdle, 10),
      make: async (_kind, host, caller) => {
        await this.onMake(host);
        const object = new Scripted(host as ObjectHost<Kept>, (queueId) => this.stub(queueId, caller));
        this.made.push([host.queueId, object]);
        return object;
      },
      log: (level, message, fields = {}) => this.lines.push([level, message, fields]),
      fatal: (error) => this.fatal.push(error),
    });
  }

  stub(queueId = 'queue', caller: Caller | null = null, inLine = false): Stub {
    return stubOf({ held: this.objects.of('queue', queueId), caller, inLine });
  }

  run<T>(work: (object: Scripted) => T, queueId = 'queue'): Promise<Awaited<T>> {
    return this.stub(queueId).run!(work) as Promise<Awaited<T>>;
  }

  /** The newest object. */
  get newest(): Scripted {
    return this.made.at(-1)![1];
  }

  async dial(name = 'peer', queueId = 'queue'): Promise<Peer> {
    this.#server ??= await createServer({
      host: '127.0.0.1',
      port: 0,
      fetch: (request) => {
        const [, queue = '', peer = ''] = new URL(request.url).pathname.split('/');
        return this.stub(queue).connect!(peer) as Promise<Response>;
      },
    });
    return await Peer.dial(`${this.#server.url.replace('http', 'ws')}/${queueId}/${name}`);
  }

  async end(): Promise<void> {
    await this.objects.stop();
    await this.#server?.close(0);
    await rm(this.dataDir, { recursive: true, force: true });
  }
}

/** The other end of a socket. */
export class Peer {
  readonly socket: WebSocket;
  readonly heard: string[] = [];
  closed: { code: number; reason: string } | null = null;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: Buffer, isBinary) => {
      this.heard.push(isBinary ? data.toString('hex') : data.toString());
    });
    socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
  }

  /** The connection below it. */
  get stream(): Duplex {
    return (this.socket as unknown as { _socket: Duplex })._socket;
  }

  static async dial(url: string): Promise<Peer> {
    const peer = new Peer(new WebSocket(url));
    await new Promise((resolve, reject) => peer.socket.once('open', resolve).once('error', reject));
    return peer;
  }
}
