import { type EnginePhase, phaseText } from '../../src/engine/kinds/report.ts';
import { vllm } from '../../src/engine/kinds/vllm.ts';
import { postJson, systemWeb } from '../../src/process/http.ts';
import { Outage } from '../../src/process/outage.ts';
import { manifest } from '../../src/process/package.ts';
import { type LogEntry, LogShipper } from '../../src/process/shipping.ts';
import type { GpuReading, Heartbeat } from '../../src/protocol/index.ts';
import { systemClock } from '../../src/worker/clock.ts';
import type { Ports } from '../../src/worker/ports.ts';
import { dialWebSocket } from '../../src/worker/session/dial.ts';
import type { Dial, Socket } from '../../src/worker/session/socket.ts';
import { heartbeatPoster } from '../../src/worker/telemetry/heartbeat.ts';
import { Worker } from '../../src/worker/worker.ts';
import type { DemoPart } from './cast.ts';
import { DemoEngine } from './engine.ts';

export interface DemoQueue {
  url: string;
  token: string | undefined;
}

const HEARTBEAT_SECONDS = 5;
/** A worker that vanishes is lost after three intervals. */
const SHORT_HEARTBEAT_SECONDS = 2;
const LOG_EVERY_MS = 3000;
const NEVER_ENDING_S = 7 * 24 * 3600;
const NEVER_ENDING_TOKENS = 10_000_000;
const STATISTICS_EVERY_MS = 10_000;
const GIB = 2 ** 30;

/** Steps of a start with the share of it that each takes. */
const STEPS: [EnginePhase, number][] = [
  ['starting', 0.06],
  ['loading', 0.62],
  ['compiling', 0.14],
  ['capturing', 0.12],
  ['warming', 0.06],
];
/** Steps with a bar, and how many things it counts. */
const COUNTED: Partial<Record<EnginePhase, number>> = { loading: 31, capturing: 67 };
const TICK_MS = 1500;

/** One worker of the demonstration: the real one, over real sockets, with an engine that makes things up. */
export class DemoWorker {
  readonly part: DemoPart;
  readonly engine: DemoEngine;
  readonly #worker: Worker;
  readonly #logs: LogShipper;
  readonly #sockets = new Set<Socket>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #ready = Promise.withResolvers<void>();
  #isGone = false;
  #statistics: NodeJS.Timeout | undefined;
  /** The loaded share of the weights, 0 to 1. */
  #loaded = 0;

  constructor(part: DemoPart, queue: DemoQueue) {
    this.part = part;
    const { pool, role } = part;
    this.engine = new DemoEngine({
      ...pool,
      ...(role === 'drains' ? { tokens: NEVER_ENDING_TOKENS } : {}),
    });
    if (role === 'presses') this.engine.kvCacheFloor = 0.97;
    this.#logs = this.#createLogs(queue);
    this.#worker = this.#createWorker(queue);
  }

  /** Resolves when it takes jobs. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Begins with a healthy engine, as if that had been so for long. */
  begin(): void {
    this.#begin();
    this.#healthy();
  }

  /** @param from the share of the start that is over already */
  async load(from: number): Promise<void> {
    this.#begin();
    const totalMs = this.part.pool.startSeconds * 1000;
    const beganAt = Date.now() - from * totalMs;
    let said = '';
    for (;;) {
      const share = (Date.now() - beganAt) / totalMs;
      if (share >= 1 || this.#isGone) break;
      const step = stepAt(share);
      this.#loaded = step.phase === 'loading' ? (step.progress ?? 0) : step.index > 1 ? 1 : 0;
      this.#worker.enginePhase({
        phase: step.phase,
        progress: step.progress,
        atMs: beganAt + step.from * totalMs,
      });
      const line = phaseText({ phase: step.phase, ...(step.text && { progress: { text: step.text } }) });
      if (line !== said) this.#say('vllm', 'info', line);
      said = line;
      await new Promise((resolve) => setTimeout(resolve, TICK_MS));
    }
    if (!this.#isGone) this.#healthy();
  }

  /** Its engine does not start, for want of memory. */
  fail(): void {
    this.#begin();
    const line =
      'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of ' +
      '79.11 GiB of which 1.38 GiB is free.';
    const { ageSeconds, pool } = this.part;
    const createdAt = Date.now() - ageSeconds * 1000;
    this.#worker.enginePhase({ phase: 'starting', atMs: createdAt + 0.1 * ageSeconds * 1000 });
    this.#worker.enginePhase({ phase: 'loading', atMs: createdAt + 0.3 * ageSeconds * 1000 });
    this.#say('vllm', 'info', `Starting to load model ${pool.model}...`);
    this.#say('vllm', 'error', line);
    const { cause, advice, kind } = vllm.explainExit(1, [line]);
    setTimeout(() => {
      this.#worker.engineFailed(`vllm failed to start: ${cause}. ${advice}`, false, kind, advice);
    }, TICK_MS);
  }

  drain(): void {
    this.#worker.drain(NEVER_ENDING_S);
  }

  /** As a machine that loses its power. */
  vanish(): void {
    this.#isGone = true;
    clearInterval(this.#statistics);
    for (const socket of this.#sockets) socket.destroy();
  }

  /** In order, and at once. */
  async stop(): Promise<void> {
    clearInterval(this.#statistics);
    this.#worker.force();
    await this.#ended.promise;
    this.#isGone = true;
    await this.#logs.close(500);
  }

  #begin(): void {
    this.#logs.start();
    this.#worker.start();
  }

  #healthy(): void {
    this.#loaded = 1;
    this.#statistics = setInterval(() => void this.#sayStatistics(), STATISTICS_EVERY_MS);
    this.#worker.engineHealthy([this.part.pool.model]);
  }

  #createWorker({ url, token }: DemoQueue): Worker {
    const { workerId, pool, role, ageSeconds, version } = this.part;
    const log = (level: LogEntry['level']) => (_fields: object, message: string) =>
      this.#say('worker', level, message);
    const ports: Ports = {
      clock: systemClock,
      dial: this.#dial,
      engine: this.engine,
      fetch,
      fetchPublic: fetch,
      gpus: async () => this.#gpus(),
      spool: null,
      random: Math.random,
      log: { debug: () => {}, info: log('info'), warn: log('warning'), error: log('error') },
    };
    const post = heartbeatPoster(ports, url, token);
    const settings = {
      wsUrl: url.replace(/^http/, 'ws'),
      apiUrl: url,
      token,
      queueId: 'vllm-queue',
      configId: pool.id,
      workerId,
      capacity: pool.slots,
      instance: {
        id: workerId,
        host: workerId.replace(/-.*/, '-host'),
        gpu: pool.gpu.name,
        engine: 'vllm',
        engine_version: '0.32.0',
        model: pool.model,
        worker_version: manifest.version,
        boot_id: crypto.randomUUID(),
        ...(version && { version }),
      },
      renewAfterSeconds: 24,
      graceSeconds: 5,
      heartbeatIntervalSeconds: role === 'vanishes' ? SHORT_HEARTBEAT_SECONDS : HEARTBEAT_SECONDS,
      createdAtMs: Date.now() - ageSeconds * 1000,
      payloadHosts: null,
      streamInterval: { minMs: 0, maxMs: 20, rampEvents: 16, manyStreams: 128 },
      backpressure: { checkIntervalSeconds: 5, pauseAboveWaiting: 4, resumeAtWaiting: 2, kvCacheLimit: 0.95 },
    };
    return new Worker(
      ports,
      settings,
      async (beat) => {
        if (!this.#isGone) await post(this.#aged(beat));
      },
      {
        ready: () => this.#ready.resolve(),
        engineDoubted: () => {},
        ended: () => this.#ended.resolve(),
      },
    );
  }

  #createLogs({ url, token }: DemoQueue): LogShipper {
    const { workerId, pool } = this.part;
    const outage = new Outage({ info: () => {}, warn: () => {} }, { begins: '', ends: '' });
    return new LogShipper({
      clock: systemClock,
      intervalMs: LOG_EVERY_MS,
      outage,
      post: async (entries) => {
        const body = { instance_id: workerId, queue_id: 'vllm-queue', config_id: pool.id, entries };
        if (!this.#isGone) await postJson(systemWeb, { url: `${url}/api/logs`, token, body });
      },
    });
  }

  readonly #dial: Dial = (target, events) => {
    if (this.#isGone) return { send: () => {}, ping: () => {}, close: () => {}, destroy: () => {} };
    const socket: Socket = dialWebSocket(target, {
      ...events,
      closed: (close) => {
        this.#sockets.delete(socket);
        events.closed(close);
      },
    });
    this.#sockets.add(socket);
    return socket;
  };

  /** Returns the heartbeat of a worker that is said to be hours old, and had its start then. */
  #aged(beat: Heartbeat): Heartbeat {
    const { role, ageSeconds, pool } = this.part;
    if (role === 'loads' || role === 'fails') return beat;
    const created = Math.round(Date.now() - ageSeconds * 1000);
    const created_ms = beat.start?.created_ms ?? created;
    // No two starts take the same time.
    const took = pool.startSeconds * 1000 * (0.9 + (workerNumber(this.part.workerId) % 20) / 100);
    const start = {
      created_ms,
      engine_started_ms: Math.round(created_ms + took * 0.04),
      weights_loaded_ms: Math.round(created_ms + took * 0.68),
      engine_healthy_ms: Math.round(created_ms + took),
      first_job_ms: Math.round(created_ms + took + 900),
    };
    return { ...beat, start };
  }

  #gpus(): GpuReading[] {
    const { gpu } = this.part.pool;
    const { load } = this.engine;
    const total = gpu.memoryGib * GIB;
    return Array.from({ length: gpu.count }, () => {
      const utilization = this.#loaded < 1 ? 0.03 : Math.min(1, load * 0.92 + Math.random() * 0.06);
      return {
        name: gpu.name,
        memory_used_bytes: Math.round(total * (0.01 + this.#loaded * 0.89)),
        memory_total_bytes: total,
        utilization: Math.round(utilization * 100) / 100,
        temperature_celsius: Math.round(34 + utilization * 36 + Math.random() * 2),
        power_watts: Math.round(gpu.watts * (0.16 + utilization * 0.7)),
      };
    });
  }

  /** The line that vLLM writes every ten seconds. */
  async #sayStatistics(): Promise<void> {
    const { running, kvCacheUsage } = await this.engine.gauges();
    const { tokensPerSecond } = this.part.pool;
    this.#say(
      'vllm',
      'info',
      `Engine 000: Avg generation throughput: ${(running * tokensPerSecond).toFixed(1)} tokens/s, ` +
        `Running: ${running} reqs, Waiting: 0 reqs, GPU KV cache usage: ${(kvCacheUsage * 100).toFixed(1)}%`,
    );
  }

  #say(source: LogEntry['source'], level: LogEntry['level'], message: string): void {
    this.#logs.add({ timestamp: Math.floor(Date.now() / 1000), source, level, message });
  }
}

interface Step {
  index: number;
  phase: EnginePhase;
  /** Share of the start at which it begins. */
  from: number;
  progress?: number;
  text?: string;
}

function stepAt(share: number): Step {
  let from = 0;
  for (const [index, [phase, part]] of STEPS.entries()) {
    if (share < from + part || index === STEPS.length - 1) {
      const count = COUNTED[phase];
      if (count === undefined) return { index, phase, from };
      const done = Math.floor(((share - from) / part) * count);
      return { index, phase, from, progress: done / count, text: `${done} of ${count}` };
    }
    from += part;
  }
  throw new Error('unreachable');
}

function workerNumber(workerId: string): number {
  return [...workerId].reduce((sum, character) => sum + character.charCodeAt(0), 0);
}
