import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { Objects } from '../../../../src/asking/objects.ts';
import { PEER_PATH } from '../../../../src/host/node/answers/peers.ts';
import { Relays } from '../../../../src/host/node/answers/relays.ts';
import { createServer, type RunningServer } from '../../../../src/host/node/http/server.ts';
import { streamIdOf } from '../../../../src/protocol/index.ts';
import type { AnswerStream } from '../../../../src/worker/answers/answer-stream.ts';
import { Answers } from '../../../../src/worker/answers/answers.ts';
import { systemClock } from '../../../../src/worker/clock.ts';
import type { Ports } from '../../../../src/worker/ports.ts';
import { dialWebSocket } from '../../../../src/worker/session/dial.ts';
import { FaultyProxy } from '../../../support/faulty-proxy.ts';
import { until } from '../../../support/poll.ts';
import { Caller } from '../../../support/relay-harness.ts';

/** Relays of several processes, here in one, with their links and a worker over real WebSockets. */
class Process {
  readonly home: number;
  readonly relays: Relays;
  readonly logged: string[] = [];
  readonly sockets: WebSocket[] = [];
  server!: RunningServer;
  /** The network over which the others dial this process. */
  network!: FaultyProxy;

  constructor(home: number, secret = 'secret') {
    this.home = home;
    this.relays = new Relays({}, {} as Objects, (_level, message) => this.logged.push(message), home);
    this.relays.peers.join(`i${home}`, secret);
  }

  async start(): Promise<this> {
    this.server = await createServer({
      host: '127.0.0.1',
      port: 0,
      fetch: async (request) => {
        if (new URL(request.url).pathname === PEER_PATH) return this.relays.peers.accept(request);
        return await this.relays.stub('q', 'w', null).connect(request);
      },
    });
    this.network = await new FaultyProxy(this.server.port, () => 0.5).listen();
    return this;
  }

  get peer() {
    return { home: this.home, instance: `i${this.home}`, address: `127.0.0.1:${this.network.port}` };
  }

  /** Opens an answer for a caller. */
  async open(stream: number): Promise<Caller> {
    const caller = new Caller();
    const opened = await this.relays.stub('q', 'w', null).openAnswer!(stream, null);
    if ('broken' in opened) caller.abort(opened.broken, true);
    else if (opened.whole) {
      caller.write(opened.whole);
      caller.end();
    } else opened.attach(caller);
    return caller;
  }

  async stop(): Promise<void> {
    this.relays.leave();
    await this.network.close();
    await this.server.close(0);
  }
}

let processes: Process[];
let answers: Answers;
/** The process at which the worker dials. */
let port: Process;
let fence: number;
let dials: number;

async function begin(homes: number[]): Promise<void> {
  processes = await Promise.all(homes.map((home) => new Process(home).start()));
  meet();
  await until(
    () => processes.every(({ relays }) => relays.peers.links === homes.length - 1),
    'all are linked',
  );
}

function meet(): void {
  const gateways = processes.filter(({ home }) => home !== 0).map(({ peer }) => peer);
  const owner = processes.find(({ home }) => home === 0);
  for (const { relays, home } of processes)
    relays.peers.set(gateways, home === 0 || !owner ? null : `http://${owner.peer.address}`);
}

beforeEach(async () => {
  fence = 0;
  dials = 0;
  const quiet = () => {};
  const ports = {
    clock: systemClock,
    random: () => 0,
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    dial: (target, events) => {
      dials += 1;
      return dialWebSocket({ ...target, url: port.server.url.replace('http', 'ws') }, events);
    },
  } as Partial<Ports> as Ports;
  const streamInterval = { minMs: 0, maxMs: 20, rampEvents: 4, manyStreams: 3 };
  answers = new Answers(ports, { token: undefined, streamInterval }, { changed: () => {} });
});

afterEach(async () => {
  await answers.close();
  await Promise.all(processes.map((process) => process.stop()));
});

async function dial(at: Process): Promise<void> {
  port = at;
  answers.connect('ws://balancer');
  await until(() => dials > 0, 'the worker dials');
}

/** Begins an answer whose caller is at this process. */
function answerOf(home: Process, cancelled: (reason: string) => void = () => {}): [number, AnswerStream] {
  const id = streamIdOf(++fence, home.home);
  const stream = answers.open(id, cancelled);
  stream.head({ status: 200, headers: { 'content-type': 'text/event-stream' } });
  return [id, stream];
}

const event = (n: number) => new TextEncoder().encode(`data: ${n}\n\n`);
const events = (count: number) => Array.from({ length: count }, (_, n) => `data: ${n}\n\n`).join('');

describe('answers in several processes', () => {
  it('reach their homes over whichever process has the socket', async () => {
    await begin([0, 3, 9]);
    await dial(processes[1]!);
    const open = processes.map((process) => {
      const [id, stream] = answerOf(process);
      return { stream, caller: process.open(id) };
    });
    for (let n = 0; n < 50; n++) for (const { stream } of open) stream.write(event(n));
    for (const { stream } of open) stream.end();
    for (const { caller } of open) {
      const seen = await caller;
      await until(() => seen.ended, 'the answer has come');
      expect(seen.received).toBe(events(50));
    }
    await until(() => answers.isIdle, 'the worker knows that all has come');
  });

  it('are cancelled and paused across processes', async () => {
    await begin([0, 3]);
    await dial(processes[0]!);
    const reasons: string[] = [];
    const [id, stream] = answerOf(processes[1]!, (reason) => reasons.push(reason));
    stream.write(event(0));
    const opened = await processes[1]!.relays.stub('q', 'w', null).openAnswer!(id, null);
    if ('broken' in opened) throw new Error(opened.broken.message);
    const caller = new Caller();
    caller.keepsUp = false;
    opened.attach(caller);
    await until(() => stream.isFull, 'the worker has heard that the caller is slow');
    caller.keepsUp = true;
    opened.reads();
    await until(() => !stream.isFull, 'the worker has heard that the caller reads');
    opened.gone();
    await until(() => reasons.length > 0, 'the worker has heard that the caller is gone');
    expect(reasons).toEqual(['caller_gone']);
  });

  it('go on byte by byte when the socket moves, and when its process ends', async () => {
    await begin([0, 3, 9]);
    await dial(processes[1]!);
    const [id, stream] = answerOf(processes[2]!);
    const opening = processes[2]!.open(id);
    stream.write(event(0));
    const caller = await opening;
    const arrives = async (n: number) => {
      stream.write(event(n));
      await until(() => caller.received.endsWith(`data: ${n}\n\n`), `event ${n} has come`);
    };
    await arrives(1);
    port = processes[0]!;
    processes[1]!.relays.closeSockets();
    for (let n = 2; n < 10; n++) stream.write(event(n));
    await arrives(10);
    // The process with the socket ends.
    port = processes[1]!;
    const [ended] = processes.splice(0, 1);
    await ended!.stop();
    stream.write(event(11));
    await arrives(12);
    stream.end();
    await until(() => caller.ended, 'the answer is whole');
    expect(caller.received).toBe(events(13));
  });

  it.each(['breaks', 'is silent'])('go on byte by byte when the link of their home %s', async (way) => {
    await begin([0, 3]);
    await dial(processes[0]!);
    const [id, stream] = answerOf(processes[1]!);
    const opening = processes[1]!.open(id);
    stream.write(event(0));
    const caller = await opening;
    if (way === 'breaks') processes[0]!.network.cut();
    else processes[0]!.network.halfOpen('neither');
    for (let n = 1; n < 10; n++) stream.write(event(n));
    await until(() => dials === 2, 'the worker has dialled again');
    stream.write(event(10));
    stream.end();
    await until(() => caller.ended, 'the answer is whole');
    // Comments fill a silence.
    expect(caller.received.replace(/^: .*\n\n/gm, '')).toBe(events(11));
    await until(() => answers.isIdle, 'the worker knows that all has come');
  });

  it('of a process that ends are broken for its callers alone, and its workers stay where they are', async () => {
    await begin([0, 3, 9]);
    await dial(processes[0]!);
    const reasons: string[] = [];
    const [going, first] = answerOf(processes[2]!, (reason) => reasons.push(reason));
    const [staying, second] = answerOf(processes[1]!);
    const [gone, stays] = [processes[2]!.open(going), processes[1]!.open(staying)];
    first.write(event(0));
    second.write(event(0));
    const [leaver, caller] = [await gone, await stays];
    const [ended] = processes.splice(2, 1);
    await ended!.stop();
    expect(leaver.broken).toBe('the queue starts again');
    await until(() => reasons.length > 0, 'the worker gives the broken answer up');
    second.write(event(1));
    second.end();
    await until(() => caller.ended, 'the other answer is whole');
    expect([caller.received, dials]).toEqual([events(2), 1]);
  });

  it('are broken by the queue at their home alone', async () => {
    await begin([0, 3]);
    await dial(processes[0]!);
    const [id, stream] = answerOf(processes[1]!);
    const opening = processes[1]!.open(id);
    stream.write(event(0));
    const caller = await opening;
    const reason = { message: 'lost', code: 'worker_died', retryable: true };
    const told = (process: Process, where?: 'any home') =>
      process.relays.stub('q', 'w', null).breakStream(streamIdOf(fence, where ? 0 : 3), reason, where);
    await told(processes[0]!);
    expect(processes[0]!.relays.metrics('q').streams).toBe(0);
    await told(processes[1]!, 'any home');
    expect(caller.broken).toBe('lost');
  });
});

describe('a link', () => {
  it('opens for those who know the secret alone', async () => {
    await begin([0]);
    const statusOf = (query: string, secret: string) =>
      new Promise<number>((resolve) => {
        const url = `${processes[0]!.server.url.replace('http', 'ws')}${PEER_PATH}?${query}`;
        const socket = new WebSocket(url, { headers: { authorization: `Bearer ${secret}` } });
        socket.on('unexpected-response', (_request, { statusCode }) => resolve(statusCode!));
        socket.on('open', () => {
          socket.close();
          resolve(101);
        });
        socket.on('error', () => {});
      });
    expect(await statusOf('home=3&instance=i', 'other')).toBe(401);
    expect(await statusOf('home=0&instance=i', 'secret')).toBe(400);
    expect(await statusOf('home=256&instance=i', 'secret')).toBe(400);
    expect(await statusOf('home=3', 'secret')).toBe(400);
    expect(await statusOf('home=3&instance=i', 'secret')).toBe(101);
  });

  it('ends where the other end sends what cannot be read, and nothing else does', async () => {
    await begin([0]);
    const url = `${processes[0]!.server.url.replace('http', 'ws')}${PEER_PATH}?home=3&instance=i`;
    for (const message of ['{"type":"nonsense"}', Buffer.from([1, 2])]) {
      const socket = new WebSocket(url, { headers: { authorization: 'Bearer secret' } });
      const closed = new Promise<number>((resolve) => socket.on('close', resolve));
      socket.on('open', () => socket.send(message));
      expect(await closed).toBe(1011);
    }
    await dial(processes[0]!);
    const [id, stream] = answerOf(processes[0]!);
    const opening = processes[0]!.open(id);
    stream.write(event(0));
    stream.end();
    const caller = await opening;
    await until(() => caller.ended, 'the answer has come');
  });
});
