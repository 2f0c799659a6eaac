import { RUNPOD_QUEUE } from '../../src/protocol/index.ts';
import { RUNPOD_DEFAULTS } from '../../src/worker/run/runpod-input.ts';
import { RUNPOD_URL, RunpodQueue } from '../../src/worker/runpod/runpod-queue.ts';
import { Worker } from '../../src/worker/worker.ts';
import type { Violation } from '../simulation/oracle.ts';
import { FakeEngine, type FakeExchange } from '../support/fake-engine.ts';
import { MemorySpool } from '../support/memory-spool.ts';
import { Random } from '../support/random.ts';
import { settled, VirtualClock } from '../support/virtual-clock.ts';
import { eventsOf, wholeOf } from './job.ts';
import { WorldPlatform } from './platform.ts';
import { type EngineRequest, Promises, Seen } from './promises.ts';

const JOBS = 30;
const SLOTS = 3;
const EVENTS = 'text/event-stream; charset=utf-8';

interface Process {
  worker: Worker;
  queue: RunpodQueue;
  seen: Seen;
  isAlive: boolean;
  hasEnded: boolean;
}

export interface RunpodRun {
  violation: Violation | null;
  /** What happened, with the time, s. */
  lines: string[];
  /** Times that a job was given to a worker. */
  gives: number;
}

/** The same seed gives the same run. */
export async function simulateRunpod(seed: number): Promise<RunpodRun> {
  return await new RunpodWorld(seed).run();
}

/**
 * Workers of one RunPod endpoint, one process after another on one disk, killed and told to end, with an engine that
 * fails now and then and a platform that refuses, loses answers and gives jobs out again. All time is virtual.
 */
class RunpodWorld {
  readonly #clock = new VirtualClock();
  readonly #platform: WorldPlatform;
  readonly #promises = new Promises();
  readonly #lines: string[] = [];
  readonly #random: Random;
  readonly #spool = new MemorySpool();
  readonly #startedAtMs = this.#clock.now();
  #process: Process | null = null;
  #processes = 0;

  constructor(seed: number) {
    this.#random = new Random(seed, 'world');
    const platformRandom = new Random(seed, 'platform');
    this.#platform = new WorldPlatform(this.#clock, platformRandom, (text) => this.#note(text));
  }

  /** Jobs come and accidents happen, then the platform is calm until every job is over, or the time is. */
  async run(): Promise<RunpodRun> {
    await this.#start();
    for (let n = 0; n < JOBS; n++) {
      const max_tokens = this.#random.chance(0.2) ? 100_000 : 16;
      const input = { stream: this.#random.chance(0.6), sampling_params: { max_tokens } };
      this.#platform.submit(`job${n}`, { prompt: `job${n}`, ...input });
      await this.#clock.advance(this.#random.wait(500));
      await this.#accident();
    }
    this.#platform.isCalm = true;
    const open = () => this.#platform.jobs.some(({ status }) => status === 'queued' || status === 'given');
    for (let minute = 0; minute < 10 && open(); minute++) {
      if (this.#process?.hasEnded) await this.#start();
      await this.#clock.advance(60_000);
    }
    for (const job of this.#platform.jobs) this.#promises.judge(job);
    const gives = this.#platform.jobs.reduce((sum, job) => sum + job.gives, 0);
    return { violation: this.#promises.violation, lines: this.#lines, gives };
  }

  #note(text: string): void {
    this.#lines.push(`${((this.#clock.now() - this.#startedAtMs) / 1000).toFixed(3)} ${text}`);
  }

  async #accident(): Promise<void> {
    const dice = this.#random.next();
    if (dice < 0.06) {
      this.#note('kill -9, and a new container on the same disk');
      this.#process!.isAlive = false;
      this.#spool.crash();
      await this.#start();
    } else if (dice < 0.12) {
      await this.#terminate();
      await this.#start();
    } else if (dice < 0.2) {
      const given = this.#platform.jobs.filter(({ status }) => status === 'given' || status === 'queued');
      if (given.length > 0) this.#platform.stop(this.#random.pick(given));
    } else if (dice < 0.25) {
      this.#note('the engine is unhealthy');
      this.#process!.worker.engineUnhealthy('sick');
      await this.#clock.advance(this.#random.wait(2000));
      this.#process!.worker.engineHealthy(['tiny']);
    }
  }

  /** SIGTERM, and what may come of the grace. */
  async #terminate(): Promise<void> {
    const process = this.#process!;
    const { queue, worker, seen } = process;
    const graceMs = this.#random.int(0, 60) * 1000;
    const endsAtMs = this.#clock.now() + graceMs;
    this.#note(`SIGTERM, with ${graceMs / 1000} s`);
    seen.ends();
    void queue
      .stopTaking(300, graceMs)
      .then(() => worker.drain(Math.max(0, endsAtMs - this.#clock.now()) / 1000));
    for (let waited = 0; waited < 600 && !process.hasEnded; waited++) await this.#clock.advance(250);
    if (!process.hasEnded) this.#promises.violated('ends', 'a worker did not end after SIGTERM');
    seen.hasEnded(this.#clock.now() < endsAtMs);
    process.isAlive = false;
  }

  async #start(): Promise<void> {
    const engine = new FakeEngine();
    const log = (_fields: object, message: string) => this.#note(message);
    const ports = {
      clock: this.#clock,
      random: () => 0.5,
      log: { debug: () => {}, info: log, warn: log, error: log },
    };
    const seen = new Seen(`process ${++this.#processes}`, this.#promises);
    const process: Partial<Process> = { seen, isAlive: true, hasEnded: false };
    const queue = new RunpodQueue({
      ...ports,
      platform: this.#platform.seenBy(seen, () => process.isAlive!),
      pingIntervalMs: 10_000,
      refreshes: false,
      refresh: () => {},
    });
    const noNetwork = () => Promise.reject(new Error('no network'));
    const worker = new Worker(
      {
        ...ports,
        dial: queue.dial,
        inside: queue,
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
      if (process.isAlive) void this.#play(engine.last, process as Process);
      return answer;
    };
    worker.start();
    await settled();
    worker.engineHealthy(['tiny']);
    await this.#clock.advance(0);
  }

  /** The engine at one request. */
  async #play(exchange: FakeExchange, process: Process): Promise<void> {
    const { prompt: jobId, stream } = exchange.body as { prompt: string; stream: boolean };
    let isOver = false;
    const request: EngineRequest = { jobId, isOver: () => isOver || exchange.isAborted };
    process.seen.asksEngine(request, SLOTS);
    await this.#sleep(this.#random.wait(200));
    if (this.#random.chance(0.05)) exchange.json(500, { error: { message: 'sick' } });
    else if (stream) await this.#stream(exchange, request, process);
    else exchange.json(200, bodyOf(jobId));
    isOver = true;
  }

  async #stream(exchange: FakeExchange, request: EngineRequest, { seen }: Process): Promise<void> {
    exchange.head(200, EVENTS);
    const events = eventsOf(request.jobId);
    const dies = this.#random.chance(0.05) ? this.#random.int(0, events.length) : -1;
    for (const [index, event] of events.entries()) {
      if (request.isOver()) return;
      seen.engineWorks(request, this.#clock.now());
      if (index === dies) return void exchange.die();
      exchange.write(event);
      await this.#sleep(this.#random.wait(150));
    }
    exchange.end();
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.setTimeout(resolve, ms));
  }
}

function bodyOf(jobId: string): object {
  const choices = [{ index: 0, text: wholeOf(jobId, false), finish_reason: 'stop' }];
  return { choices, usage: { prompt_tokens: 1, completion_tokens: 8, total_tokens: 9 } };
}
