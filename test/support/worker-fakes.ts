import {
  type GpuReading,
  type Heartbeat,
  type JobError,
  type JobResult,
  PONG_TEXT,
} from '../../src/protocol/index.ts';
import type { Spool } from '../../src/worker/jobs/settlement.ts';
import type { Ports } from '../../src/worker/ports.ts';
import { Worker, type WorkerSettings } from '../../src/worker/worker.ts';
import { FakeConnection } from './fake-connection.ts';
import { FakeEngine } from './fake-engine.ts';
import { settled, VirtualClock } from './virtual-clock.ts';

/** A worker with nothing real around it. */
export class WorkerBench {
  readonly clock = new VirtualClock();
  readonly engine = new FakeEngine();
  readonly connections: FakeConnection[] = [];
  readonly beats: Heartbeat[] = [];
  readonly logged: string[] = [];
  /** The same lines with their fields. */
  readonly lines: Record<string, unknown>[] = [];
  readonly worker: Worker;
  fetch: Ports['fetch'] = () => Promise.reject(new Error('no network in this test'));
  /** Fetches from addresses that have to be public. */
  fetchPublic: Ports['fetch'] = (url, init) => this.fetch(url, init);
  /** Takes a heartbeat as the API would. */
  post: () => Promise<void> = async () => {};
  gpus: GpuReading[] = [];
  /** Answers as the GPU's driver. */
  readGpus: Ports['gpus'] = async () => this.gpus;
  /** Is called about an engine that seems to die. */
  engineDoubted: (message: string) => void = () => {};
  exitCode: number | null = null;
  readyCount = 0;

  constructor(settings: Partial<WorkerSettings> = {}, spool: Spool | null = null) {
    const log = (fields: object, message: string) => {
      this.logged.push(message);
      this.lines.push({ ...fields, message });
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
      gpus: () => this.readGpus(),
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
        streamInterval: { minMs: 0, maxMs: 20, rampEvents: 4, manyStreams: 3 },
        backpressure: {
          checkIntervalSeconds: 5,
          pauseAboveWaiting: 0,
          resumeAtWaiting: 0,
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
        engineDoubted: (message) => this.engineDoubted(message),
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

  /** Started, engine healthy, registered with an extended queue, answer socket open. */
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
