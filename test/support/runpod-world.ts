import { RUNPOD_QUEUE } from '../../src/protocol/index.ts';
import { RUNPOD_DEFAULTS } from '../../src/worker/run/runpod-input.ts';
import { RUNPOD_URL, RunpodQueue } from '../../src/worker/runpod/runpod-queue.ts';
import { Worker } from '../../src/worker/worker.ts';
import { Random } from '../simulation/random.ts';
import { FakeEngine, type FakeExchange } from './fake-engine.ts';
import { MemorySpool } from './memory-spool.ts';
import { WorldPlatform } from './runpod-platform.ts';
import { settled, VirtualClock } from './virtual-clock.ts';

const SLOTS = 3;
const EVENTS = 'text/event-stream; charset=utf-8';
const DONE = 'data: [DONE]\n\n';

/** What the engine streams to a job: its name, piece by piece. */
export function eventsOf(id: string, count: number): string[] {
  const events = Array.from({ length: count }, (_, index) => {
    const finish_reason = index === count - 1 ? 'stop' : null;
    return `data: ${JSON.stringify({ choices: [{ index: 0, text: `${id}.${index} `, finish_reason }] })}\n\n`;
  });
  return [...events, DONE];
}

interface Process {
  worker: Worker;
  queue: RunpodQueue;
  isAlive: boolean;
  hasEnded: boolean;
}

/**
 * Workers of one RunPod endpoint, one process after another on one disk, killed and told to end, with an engine that
 * fails now and then and a platform that refuses, loses answers and gives jobs out again. All time is virtual.
 */
export class RunpodWorld {
  readonly clock = new VirtualClock();
  readonly platform: WorldPlatform;
  readonly logged: string[] = [];
  readonly #random: Random;
  readonly #spool = new MemorySpool();
  #process: Process | null = null;

  constructor(seed: number) {
    this.#random = new Random(seed, 'world');
    this.platform = new WorldPlatform(this.clock, new Random(seed, 'platform'));
  }

  /** Jobs come and accidents happen, then the platform is calm until every job is over, or the time is. */
  async run(jobs: number): Promise<void> {
    await this.#start();
    for (let id = 0; id < jobs; id++) {
      this.platform.submit(`job${id}`, { prompt: `job${id}`, stream: true });
      await this.clock.advance(this.#random.wait(1500));
      await this.#accident();
    }
    this.platform.isCalm = true;
    const open = () => this.platform.jobs.some(({ status }) => status === 'queued' || status === 'given');
    for (let minute = 0; minute < 10 && open(); minute++) {
      if (this.#process?.hasEnded) await this.#start();
      await this.clock.advance(60_000);
    }
  }

  async #accident(): Promise<void> {
    const dice = this.#random.next();
    if (dice < 0.06) {
      // kill -9, and a new container on the same disk.
      this.#process!.isAlive = false;
      this.#spool.crash();
      await this.#start();
    } else if (dice < 0.12) {
      await this.#terminate();
      await this.#start();
    } else if (dice < 0.2) {
      const given = this.platform.jobs.filter(({ status }) => status === 'given' || status === 'queued');
      if (given.length > 0) this.platform.stop(this.#random.pick(given));
    } else if (dice < 0.25) {
      this.#process!.worker.engineUnhealthy('sick');
      await this.clock.advance(this.#random.wait(2000));
      this.#process!.worker.engineHealthy(['tiny']);
    }
  }

  /** SIGTERM, and what may come of the grace. */
  async #terminate(): Promise<void> {
    const process = this.#process!;
    void process.queue.stopTaking(300, 60_000).then(() => process.worker.drain(this.#random.int(0, 30)));
    for (let waited = 0; waited < 600 && !process.hasEnded; waited++) await this.clock.advance(250);
    if (!process.hasEnded) this.platform.problems.push('a worker did not end after SIGTERM');
    process.isAlive = false;
  }

  async #start(): Promise<void> {
    const engine = new FakeEngine();
    const log = (_fields: object, message: string) => void this.logged.push(message);
    const ports = {
      clock: this.clock,
      random: () => 0.5,
      log: { debug: () => {}, info: log, warn: log, error: log },
    };
    const process: Partial<Process> = { isAlive: true, hasEnded: false };
    const queue = new RunpodQueue({
      ...ports,
      platform: this.platform.seenBy(() => process.isAlive!),
      pingIntervalMs: 10_000,
      refreshes: false,
      refresh: () => {},
    });
    const noNetwork = () => Promise.reject(new Error('no network'));
    const worker = new Worker(
      {
        ...ports,
        dial: queue.dial,
        engine,
        fetch: noNetwork,
        fetchPublic: noNetwork,
        gpus: async () => [],
        spool: this.#spool,
      },
      {
        ...{
          wsUrl: RUNPOD_URL,
          token: undefined,
          queueId: 'e',
          configId: 'e',
          workerId: 'w',
          capacity: SLOTS,
        },
        ...{ instance: { id: 'w', boot_id: 'b' }, renewAfterSeconds: 24, graceSeconds: 60 },
        ...{ heartbeatIntervalSeconds: 60, apiUrl: undefined, payloadHosts: null, backpressure: null },
        streamInterval: { minMs: 0, maxMs: 20, rampEvents: 4, manyStreams: 3 },
        queueProfile: RUNPOD_QUEUE,
        runpod: { ...RUNPOD_DEFAULTS, form: 'engine' },
      },
      null,
      {
        ready: () => {},
        draining: () => {},
        engineDoubted: () => {},
        ended: () => {
          process.hasEnded = true;
        },
      },
    );
    Object.assign(process, { worker, queue });
    this.#process = process as Process;
    const request = engine.request.bind(engine);
    engine.request = (call) => {
      const answer = request(call);
      if (process.isAlive) void this.#play(engine.last);
      return answer;
    };
    worker.start();
    await settled();
    worker.engineHealthy(['tiny']);
    await this.clock.advance(0);
  }

  /** The engine at one request. */
  async #play(exchange: FakeExchange): Promise<void> {
    const id = String(exchange.body.prompt);
    await this.#sleep(this.#random.wait(200));
    if (this.#random.chance(0.05)) return void exchange.json(500, { error: { message: 'sick' } });
    exchange.head(200, EVENTS);
    const events = eventsOf(id, 1 + ((id.length + Number(id.slice(3))) % 9));
    const dies = this.#random.chance(0.05) ? this.#random.int(0, events.length) : -1;
    for (const [index, event] of events.entries()) {
      if (index === dies) return void exchange.die();
      exchange.write(event);
      await this.#sleep(this.#random.wait(150));
    }
    exchange.end();
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.clock.setTimeout(resolve, ms));
  }
}
