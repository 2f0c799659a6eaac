import { FIRST_REQUEST } from '../../src/engine/client/first-answer.ts';
import { type EngineClient, readPieces } from '../../src/engine/client/types.ts';
import { Adapters } from '../../src/worker/adapters/adapters.ts';
import type { Clock, Timer } from '../../src/worker/clock.ts';
import type { Ports } from '../../src/worker/ports.ts';
import { SwappedEngine } from '../../src/worker/turns/swapped-engine.ts';
import type { TurnWord } from '../../src/worker/turns/turns.ts';
import { Worker } from '../../src/worker/worker.ts';
import { Random } from '../support/random.ts';
import { BaseWorker } from './base-worker.ts';
import { SimulatedEngine } from './engine.ts';
import { EngineAdapters } from './engine-adapters.ts';
import { Holdings } from './holdings.ts';
import { type ClientProcess, Link } from './network.ts';
import type { Oracle } from './oracle.ts';
import type { Plan, WorkerPlan } from './plan.ts';
import { PrefillEngine } from './prefill-engine.ts';
import { isProbe, PROBE_MS } from './probe.ts';
import type { Server } from './server.ts';
import { AWAKE_MS, type SharedGpu } from './shared-gpu.ts';
import { SleepMode } from './sleeping-engine.ts';
import type { Planned, Timeline } from './timeline.ts';
import { framesIn, frameText, type Trace } from './trace.ts';
import type { WorkerDisk } from './worker-disk.ts';

export interface Surroundings {
  plan: Plan;
  timeline: Timeline;
  trace: Trace;
  server: Server;
  oracle: Oracle;
  /** False once faults have stopped. */
  isTroubled(): boolean;
}

/** Some answers take long enough to outlive a lease or a connection, ms; the leases of base workers are long. */
const HOLDS_MS = [
  { share: 0.03, from: 250_000, to: 400_000, isBase: true },
  { share: 0.2, from: 2000, to: 30_000, isBase: true },
  { share: 0.2, from: 2000, to: 20_000, isBase: false },
] as const;

/** One boot of a worker's process: real rules, everything around them virtual. */
export class Boot implements ClientProcess {
  readonly name: string;
  readonly boot: string;
  readonly engine: SimulatedEngine;
  readonly worker: Worker | BaseWorker;
  readonly #adapters: Adapters | null;
  readonly #swapped: SwappedEngine | null;
  readonly #model: number;
  readonly #isBase: boolean;
  readonly #oracle: Oracle;
  readonly links: Link[] = [];
  readonly #holdings = new Holdings();
  isAlive = true;
  frozenUntil = 0;
  readonly #timers = new Set<Planned>();
  /** Job → fence token of the newest `job` frame. */
  readonly #fences = new Map<string, number>();
  #dials = 0;
  /** Settlements in the spool when it started. */
  #left: string[];

  constructor(
    around: Surroundings,
    plan: WorkerPlan,
    number: number,
    disk: WorkerDisk,
    gpu: SharedGpu | null,
    events: { engineDoubted(message: string): void; ended(): void; canDial(): boolean },
  ) {
    const { timeline, trace, oracle } = around;
    const { seed, latencyMs, leaseSeconds } = around.plan;
    this.name = plan.name;
    this.boot = `${plan.name}.${number}`;
    this.#isBase = plan.isBase;
    this.#model = plan.model;
    this.#oracle = oracle;
    this.#left = disk.newest();
    const random = new Random(seed, `boot ${this.boot}`);
    const holds = new Random(seed, `holds ${this.boot}`);
    const clock = this.#clock(timeline, plan.clockOffsetMs);
    const trouble = () => (around.isTroubled() ? around.plan.engineTrouble : 0);
    const adapters = new EngineAdapters(
      {
        clock,
        random: new Random(seed, `adapters ${this.boot}`),
        trouble,
        isAlive: () => this.engine.isHealthyNow,
        violated: (promise, message) => oracle.violated(promise, message),
      },
      plan.adapters,
    );
    const sleep =
      gpu &&
      new SleepMode({
        gpu,
        clock,
        now: () => timeline.now,
        random: new Random(seed, `sleep ${this.boot}`),
        boot: this.boot,
        frozenUntil: () => this.frozenUntil,
        trouble,
        open: () => this.engine.open,
        violated: (promise, message) => oracle.violated(promise, message),
      });
    const log = (level: string) => (fields: object, message: string) => {
      trace.say(`${this.boot} ${level} ${message} ${JSON.stringify(fields)}`);
      if (message === 'job released') this.#holdings.released((fields as { job_id: string }).job_id);
    };
    const logger = { debug: () => {}, info: log('info'), warn: log('warn'), error: log('error') };
    const prefiller = plan.prefills
      ? new PrefillEngine({
          clock,
          random: new Random(seed, `prefills ${this.boot}`),
          log: logger,
          trouble,
          violated: (promise, message) => oracle.violated(promise, message),
        })
      : null;
    this.engine = new SimulatedEngine({
      sleep,
      prefiller,
      adapters,
      clock,
      random: new Random(seed, `engine ${this.boot}`),
      worker: plan.name,
      trouble,
      holdMs: (jobId) => {
        if (isProbe(jobId)) return PROBE_MS;
        const hold = HOLDS_MS.find(({ share, isBase }) => isBase === plan.isBase && holds.chance(share));
        return hold ? holds.int(hold.from, hold.to) : 0;
      },
      tellsIds: plan.tellsIds,
      model: plan.model,
      serves: plan.serves,
      violated: (promise, message) => oracle.violated(promise, message),
      fenceOf: (jobId) => this.#fences.get(jobId) ?? -1,
      begun: (exchange, say) => oracle.exchangeBegun(exchange, say),
      ended: (exchange) => oracle.exchangeEnded(exchange),
    });
    const direct = prefiller?.before(this.engine) ?? this.engine;
    this.#swapped =
      gpu &&
      new SwappedEngine({
        clock,
        engine: direct,
        log: logger,
        awakeMs: AWAKE_MS,
        tell: gpu.teller(plan.name),
        turned: () => (this.worker as Worker).engineTurned(),
      });
    const engine = this.#swapped ?? direct;
    this.#adapters =
      plan.adapters &&
      new Adapters(
        {
          clock,
          engine,
          log: logger,
          folderOf: async ({ name }) => `/adapters/${name}`,
        },
        plan.adapters.names.map((name) => ({ name, source: `/adapters/${name}` })),
        plan.adapters.room,
      );
    const ports: Ports = {
      ...(this.#adapters && { adapters: this.#adapters }),
      clock,
      engine,
      spool: disk.spool(clock),
      random: () => random.next(),
      fetch: () => Promise.reject(new Error('no HTTP in this run')),
      fetchPublic: () => Promise.reject(new Error('no HTTP in this run')),
      gpus: async () => [],
      log: logger,
      dial: (target, socketEvents) => {
        const channel = target.url.includes('/answers?') ? 'answer' : 'control';
        const name = `${this.boot}/${channel}${++this.#dials}`;
        const { server } = around;
        const link = new Link({ timeline, trace, seed, latencyMs, server }, name, channel, this, {
          ...socketEvents,
          text: (text) => {
            this.#note(link, text);
            socketEvents.text(text);
          },
          binary: (data) => {
            if (channel === 'control') this.#note(link, frameText(data));
            socketEvents.binary(data);
          },
        });
        this.links.push(link);
        // A network that is away says nothing; the worker gives the dial up by itself.
        timeline.after(1 + random.wait(latencyMs), () => {
          if (events.canDial()) around.server.accept(link);
        });
        return { ...link.socket, send: (data) => this.#say(link, data, around) };
      },
    };
    const settings = {
      wsUrl: 'ws://queue',
      apiUrl: undefined,
      token: undefined,
      payloadHosts: null,
      queueId: 'q',
      configId: plan.configId,
      workerId: plan.name,
      capacity: plan.capacity,
      moves: plan.moves,
      instance: { id: plan.name, boot_id: this.boot },
      renewAfterSeconds: leaseSeconds * 0.8,
      graceSeconds: 5,
      heartbeatIntervalSeconds: 60,
      streamInterval: { minMs: 0, maxMs: 20, rampEvents: 2, manyStreams: 1 },
      backpressure: { checkIntervalSeconds: 5, pauseAboveWaiting: 2, resumeAtWaiting: 0 },
    };
    const ended = (code: number) => {
      trace.say(`${this.boot} ended with ${code}`);
      events.ended();
    };
    this.worker = plan.isBase
      ? new BaseWorker(ports, settings, () => ended(0))
      : new Worker(ports, settings, null, {
          ready: () => {},
          engineDoubted: (message) => events.engineDoubted(message),
          ended,
        });
  }

  /** What a watch does when the engine answers as it should. */
  async engineHealthy(): Promise<void> {
    const names = await this.engine.models();
    // It keeps its first turn until the worker has asked all that it asks first.
    if (this.#swapped) await firstAnswer(this.#swapped).catch(() => {});
    this.#swapped?.started();
    const served = this.#adapters?.engineServes(names, []).names ?? names;
    this.worker.engineHealthy(served, [], null, `tiny@${this.#model}@`);
  }

  /** From the `swap` command. */
  hear(word: TurnWord): void {
    this.#swapped?.hear(word);
  }

  get armedTimers(): number {
    return this.#timers.size;
  }

  /** The queue has its `register`, on a connection that leads there, whatever either end believes. */
  get isConnected(): boolean {
    const link = this.links.findLast(({ channel }) => channel === 'control');
    return link?.isOpen === true && link.isHeard;
  }

  end(isPowerLoss: boolean): void {
    this.isAlive = false;
    this.engine.die();
    for (const timer of this.#timers) timer.run = null;
    this.#timers.clear();
    for (const link of this.links) link.clientDied(isPowerLoss);
  }

  #say(link: Link, data: string | Uint8Array, { oracle }: Surroundings): void {
    if (typeof data === 'string' && !this.#isBase) {
      const missing = framesIn(data).flatMap((text) => this.#holdings.said(text));
      if (data.startsWith('{"type":"register"')) missing.push(...this.#inherited(data));
      if (missing.length > 0)
        oracle.violated('a reconnect lists what is held', `${this.boot} lacks ${missing}`);
    }
    link.socket.send(data);
  }

  /** What earlier boots left in the spool and the first frame of this one does not list. */
  #inherited(register: string): string[] {
    const { jobs } = JSON.parse(register) as { jobs: { job_id: string; fence_token: number }[] };
    const left = this.#left;
    this.#left = [];
    return left.filter((key) => !jobs.some((job) => `${job.job_id}#${job.fence_token}` === key));
  }

  #note(link: Link, text: string): void {
    // Our worker ignores what a connection says that it has given up; a base worker does not.
    if (link.isGivenUp && !this.#isBase) return;
    this.#holdings.received(text);
    const frame = JSON.parse(text) as { type: string; job_id: string; fence_token: number };
    if (frame.type === 'ack') this.#oracle.ackHeard(frame);
    if (frame.type === 'job') this.#fences.set(frame.job_id, frame.fence_token);
  }

  #clock(timeline: Timeline, offsetMs: number): Clock {
    const arm = (run: () => void, at: number): Planned => {
      const timer = timeline.at(at, () => {
        this.#timers.delete(timer);
        if (!this.isAlive) return;
        if (this.frozenUntil <= timeline.now) run();
        else {
          const later = arm(run, this.frozenUntil);
          forward.set(timer, later);
        }
      });
      this.#timers.add(timer);
      return timer;
    };
    /** Timers that fell due while the process stood still. */
    const forward = new WeakMap<Planned, Planned>();
    const clear = (timer: Timer): void => {
      if (!timer) return;
      const planned = timer as Planned;
      planned.run = null;
      this.#timers.delete(planned);
      const later = forward.get(planned);
      if (later) clear(later);
    };
    return {
      now: () => timeline.now + offsetMs,
      setTimeout: (run, ms) => arm(run, timeline.now + ms),
      clearTimeout: clear,
      setImmediate: (run) => {
        arm(run, timeline.now);
      },
    };
  }
}

async function firstAnswer(engine: EngineClient): Promise<void> {
  const { signal } = new AbortController();
  const { body } = await engine.request({
    method: 'POST',
    path: '/v1/completions',
    requestId: FIRST_REQUEST,
    signal,
  });
  await readPieces(body, () => {});
}
