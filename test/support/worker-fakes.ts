import type { EngineAnswer, EngineCall, EngineClient, EngineGauges } from '../../src/engine/client/types.ts';
import { EngineGone, EngineUnreachable } from '../../src/engine/client/types.ts';
import {
  type AnswerRecord,
  decodeRecords,
  encodeRecords,
  FEATURES,
  type Heartbeat,
  type JobError,
  type JobResult,
  PING_TEXT,
  PONG_TEXT,
  type WorkerFrame,
} from '../../src/protocol/index.ts';
import type { Clock } from '../../src/worker/clock.ts';
import type { Ports } from '../../src/worker/ports.ts';
import type { DialTarget, Socket, SocketEvents } from '../../src/worker/socket.ts';
import type { Spool } from '../../src/worker/spool.ts';
import { Worker } from '../../src/worker/worker.ts';
import type { WorkerSettings } from '../../src/worker/worker-interface.ts';

/** Time that moves only when told to. */
export class VirtualClock implements Clock {
  #now = Date.parse('2026-01-01T00:00:00Z');
  #timers: { id: number; at: number; run: () => void }[] = [];
  #nextId = 1;

  now(): number {
    return this.#now;
  }

  setTimeout(run: () => void, ms: number): number {
    const id = this.#nextId++;
    this.#timers.push({ id, at: this.#now + ms, run });
    return id;
  }

  clearTimeout(timer: unknown): void {
    this.#timers = this.#timers.filter(({ id }) => id !== timer);
  }

  setImmediate(run: () => void): void {
    this.setTimeout(run, 0);
  }

  /** Timers that are armed. */
  get armed(): number {
    return this.#timers.length;
  }

  /** Runs what is due within this time, promises included. `advance(0)` runs what is due now. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    for (;;) {
      await settled();
      const next = this.#timers.toSorted((a, b) => a.at - b.at || a.id - b.id)[0];
      if (!next || next.at > until) break;
      this.clearTimeout(next.id);
      this.#now = Math.max(this.#now, next.at);
      next.run();
    }
    this.#now = until;
  }
}

/** Lets every promise that can go on do so. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** The queue's or relay's end of one connection of the worker. */
export class FakeConnection {
  readonly target: DialTarget;
  readonly #events: SocketEvents;
  readonly texts: string[] = [];
  readonly records: AnswerRecord[] = [];
  /** Records of each binary message. */
  readonly messages: AnswerRecord[][] = [];
  websocketPings = 0;
  /** How the worker ended it. */
  closedBy: { code: number; reason: string } | 'destroyed' | null = null;

  constructor(target: DialTarget, events: SocketEvents) {
    this.target = target;
    this.#events = events;
  }

  readonly socket: Socket = {
    send: (data) => {
      if (typeof data === 'string') this.texts.push(data);
      else {
        const records = decodeRecords(data.slice());
        this.messages.push(records);
        this.records.push(...records);
      }
    },
    ping: () => {
      this.websocketPings += 1;
    },
    close: (code, reason) => {
      this.closedBy = { code, reason };
      queueMicrotask(() => this.#events.closed({ code, reason }));
    },
    destroy: () => {
      this.closedBy = 'destroyed';
    },
  };

  /** Frames of the worker, pings left out. */
  get frames(): WorkerFrame[] {
    return this.texts.filter((text) => text !== PING_TEXT).map((text) => JSON.parse(text) as WorkerFrame);
  }

  framesOf<T extends WorkerFrame['type']>(type: T): Extract<WorkerFrame, { type: T }>[] {
    return this.frames.filter((frame): frame is Extract<WorkerFrame, { type: T }> => frame.type === type);
  }

  get textPings(): number {
    return this.texts.filter((text) => text === PING_TEXT).length;
  }

  /** The bytes of a stream as they stand in the records; throws on a hole. */
  bytesOf(stream: number): string {
    let bytes = Buffer.alloc(0);
    for (const record of this.records) {
      if (record.type !== 'bytes' || record.stream !== stream) continue;
      if (record.offset > bytes.byteLength) throw new Error(`hole at ${bytes.byteLength}`);
      bytes = Buffer.concat([bytes, record.data.subarray(bytes.byteLength - record.offset)]);
    }
    return bytes.toString();
  }

  open(): void {
    this.#events.opened();
  }

  push(frame: object | string): void {
    this.#events.text(typeof frame === 'string' ? frame : JSON.stringify(frame));
  }

  pushRecords(...records: AnswerRecord[]): void {
    this.#events.binary(encodeRecords(records));
  }

  /** A binary message as it stands, whole records or not. */
  pushBytes(message: Uint8Array<ArrayBuffer>): void {
    this.#events.binary(message);
  }

  pong(): void {
    this.#events.pong();
  }

  close(code = 1006, reason = '', httpStatus?: number): void {
    this.#events.closed({ code, reason, ...(httpStatus ? { httpStatus } : {}) });
  }

  /** Answers `register` as a queue of ours does. */
  grant(more: object = {}): void {
    this.push({
      type: 'registered',
      protocol: 1,
      features: FEATURES,
      session_id: 's',
      answers_url: 'answers?worker_id=w',
      lease_seconds: 30,
      renew_after_seconds: 24,
      ...more,
    });
  }
}

/** One request as the engine sees it; the test plays the engine. */
class FakeExchange {
  readonly call: EngineCall;
  readonly #answer = Promise.withResolvers<EngineAnswer>();
  readonly #chunks: (Uint8Array | 'end' | Error)[] = [];
  #wake: () => void = () => {};
  /** Chunks the worker has read. */
  read = 0;

  constructor(call: EngineCall) {
    this.call = call;
    call.signal.addEventListener('abort', () => {
      this.#answer.reject(call.signal.reason);
      this.#wake();
    });
  }

  get promise(): Promise<EngineAnswer> {
    return this.#answer.promise;
  }

  get isAborted(): boolean {
    return this.call.signal.aborted;
  }

  get body(): Record<string, unknown> {
    return JSON.parse(this.call.body ?? 'null');
  }

  head(status: number, contentType: string): this {
    const headers = { 'content-type': contentType, 'content-length': '1', 'x-engine': 'fake' };
    this.#answer.resolve({ status, headers, body: this.#body() });
    return this;
  }

  write(text: string): this {
    return this.#put(Buffer.from(text));
  }

  end(): this {
    return this.#put('end');
  }

  /** The connection to the engine breaks. */
  die(): this {
    return this.#put(new EngineGone('the engine broke off'));
  }

  refuse(): this {
    this.#answer.reject(new EngineUnreachable('nothing listens'));
    return this;
  }

  json(status: number, body: unknown): this {
    return this.head(status, 'application/json').write(JSON.stringify(body)).end();
  }

  /** A finished chat completion. */
  complete(content = 'hello', finishReason = 'stop'): this {
    return this.json(200, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model: 'tiny',
      choices: [
        { index: 0, message: { role: 'assistant', content }, logprobs: null, finish_reason: finishReason },
      ],
      usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5, prompt_tokens_details: null },
    });
  }

  #put(chunk: Uint8Array | 'end' | Error): this {
    this.#chunks.push(chunk);
    this.#wake();
    return this;
  }

  async *#body(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.isAborted) throw this.call.signal.reason;
      const chunk = this.#chunks.shift();
      if (chunk === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } else if (chunk === 'end') return;
      else if (chunk instanceof Error) throw chunk;
      else {
        this.read += 1;
        yield chunk;
      }
    }
  }
}

class FakeEngine implements EngineClient {
  readonly exchanges: FakeExchange[] = [];
  healthy = true;
  load: EngineGauges | null = null;

  get last(): FakeExchange {
    return this.exchanges.at(-1)!;
  }

  request(call: EngineCall): Promise<EngineAnswer> {
    const exchange = new FakeExchange(call);
    this.exchanges.push(exchange);
    return exchange.promise;
  }

  async probe(): Promise<'healthy' | 'refused'> {
    return this.healthy ? 'healthy' : 'refused';
  }

  async isHealthy(): Promise<boolean> {
    return this.healthy;
  }

  async models(): Promise<string[]> {
    return ['tiny'];
  }

  async gauges(): Promise<EngineGauges | null> {
    return this.load;
  }

  async close(): Promise<void> {}
}

/** A worker with nothing real around it. */
export class WorkerBench {
  readonly clock = new VirtualClock();
  readonly engine = new FakeEngine();
  readonly connections: FakeConnection[] = [];
  readonly beats: Heartbeat[] = [];
  readonly logged: string[] = [];
  readonly worker: Worker;
  fetch: Ports['fetch'] = () => Promise.reject(new Error('no network in this test'));
  /** How addresses are reached that have to be public. */
  fetchPublic: Ports['fetch'] = (url, init) => this.fetch(url, init);
  /** How the API takes a heartbeat. */
  post: () => Promise<void> = async () => {};
  exitCode: number | null = null;
  readyCount = 0;

  constructor(settings: Partial<WorkerSettings> = {}, spool: Spool | null = null) {
    const log = (_fields: object, message: string) => {
      this.logged.push(message);
    };
    const ports: Ports = {
      clock: this.clock,
      dial: (target, events) => {
        const connection = new FakeConnection(target, events);
        this.connections.push(connection);
        return connection.socket;
      },
      engine: this.engine,
      fetch: (url, init) => this.fetch(url, init),
      fetchPublic: (url, init) => this.fetchPublic(url, init),
      spool,
      random: () => 0,
      log: { debug: () => {}, info: log, warn: log, error: log },
    };
    this.worker = new Worker(
      ports,
      {
        wsUrl: 'ws://queue',
        token: 'secret',
        queueId: 'vllm-queue',
        configId: 'config',
        workerId: 'w',
        capacity: 1,
        instance: { id: 'w', boot_id: 'b' },
        renewAfterSeconds: 24,
        graceSeconds: 5,
        heartbeatIntervalSeconds: 60,
        apiUrl: undefined,
        payloadHosts: null,
        backpressure: {
          checkIntervalSeconds: 5,
          pauseAboveWaiting: 0,
          resumeAtWaiting: 0,
          kvCacheLimit: 0.95,
        },
        ...settings,
      },
      async (beat) => {
        this.beats.push(beat);
        await this.post();
      },
      {
        ready: () => {
          this.readyCount += 1;
        },
        draining: () => {},
        ended: (exitCode) => {
          this.exitCode = exitCode;
        },
      },
    );
  }

  /** The newest connection to the queue. */
  get queue(): FakeConnection {
    return this.connections.filter(({ target }) => target.url.includes('/ws?')).at(-1)!;
  }

  /** The newest connection to the relay. */
  get relay(): FakeConnection {
    return this.connections.filter(({ target }) => target.url.includes('/answers')).at(-1)!;
  }

  /** Started, engine healthy, registered with a queue of ours, answer socket open. */
  async ready(): Promise<this> {
    this.worker.start();
    await settled();
    this.queue.open();
    this.worker.engineHealthy(['tiny']);
    this.queue.grant();
    this.relay.open();
    await settled();
    return this;
  }

  /** The same with a queue that speaks only the base protocol. */
  async readyWithBase(): Promise<this> {
    this.worker.start();
    await settled();
    this.queue.open();
    this.worker.engineHealthy(['tiny']);
    await this.clock.advance(1000);
    return this;
  }

  /** The control socket breaks; the worker dials again and is let in. */
  async reconnect(grant: object = {}): Promise<void> {
    this.queue.close();
    await this.clock.advance(1000);
    this.queue.open();
    this.queue.grant(grant);
    await settled();
  }

  /** Time passes, with a queue that answers pings. */
  async live(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 10_000) {
      this.queue.push(PONG_TEXT);
      await this.clock.advance(Math.min(10_000, ms - passed));
    }
  }

  /** Pushes a chat job, fields replaceable. */
  async push(job: object = {}): Promise<void> {
    this.queue.push({ ...CHAT_JOB, ...job });
    await settled();
  }

  get results(): JobResult[] {
    return this.queue.framesOf('job_result');
  }

  get errors(): JobError[] {
    return this.queue.framesOf('job_error');
  }
}

const CHAT_JOB = {
  type: 'job',
  job_id: 'j1',
  mode: 'persisted',
  config_id: 'config',
  job_type: 'chat_completion',
  fence_token: 1,
  payload: { messages: [{ role: 'user', content: 'hi' }] },
};

/** An `engine_request` whose caller waits for stream 7. */
export const STREAM_JOB = {
  mode: 'transient',
  job_type: 'engine_request',
  stream_id: 7,
  payload: { path: '/v1/chat/completions', body: '{"model":"tiny","stream":true}' },
};
