import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WorkerView } from '../../src/gateway/fleet-views.ts';
import { FaultyProxy } from '../support/faulty-proxy.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { cli } from '../support/road.ts';
import { modelOf } from './engine-text.ts';
import { SoakHooks } from './hooks.ts';
import { Kept } from './kept.ts';
import { childrenOf, commandLine, MARK } from './proc.ts';

/** Times of the soak's road, s: short, so that what takes a minute in production is seen in seconds here. */
export const TIMES = { lease: 10, renewAfter: 5, grace: 5, ping: 3, drain: 3 } as const;
const SLOTS = 8;
/** How many tokens an engine makes in a second for one request. */
const TOKEN_MS = 15;

/** One worker container, behind a network of its own. */
export interface SoakWorker {
  id: string;
  kept: Kept;
  proxy: FaultyProxy;
  enginePort: number;
  spool: string;
}

/** Queue, workers and the networks between them, as real processes. */
export class SoakRoad {
  readonly folder = mkdtempSync(join(tmpdir(), 'soak-'));
  readonly mark = `soak-${process.pid}-${Date.now()}`;
  readonly workers: SoakWorker[] = [];
  readonly queue: Kept;
  readonly queueUrl: string;
  /** What callers dial: the queue behind a network that goes wrong too. */
  readonly callers: FaultyProxy;
  readonly hooks: SoakHooks;
  readonly #env: NodeJS.ProcessEnv;

  private constructor(port: number, callers: FaultyProxy, hooks: SoakHooks) {
    this.hooks = hooks;
    this.queueUrl = `http://127.0.0.1:${port}`;
    this.callers = callers;
    this.#env = { [MARK]: this.mark, NODE_COMPILE_CACHE: join(this.folder, 'cache'), NO_COLOR: '1' };
    this.queue = new Kept('queue', () => this.#startQueue(port));
  }

  static async start(workers: number, random: () => number): Promise<SoakRoad> {
    const port = await freePort();
    const road = new SoakRoad(port, await new FaultyProxy(port, random).listen(), await SoakHooks.start());
    try {
      await road.#startAll(workers, port, random);
    } catch (error) {
      await road.stop();
      const said = [road.queue, ...road.workers.map(({ kept }) => kept)].map((kept) =>
        kept.output().slice(-2000),
      );
      throw new Error(`${(error as Error).message}\n${said.join('\n')}`);
    }
    return road;
  }

  async #startAll(workers: number, port: number, random: () => number): Promise<void> {
    this.queue.run();
    await until(async () => (await fetch(`${this.queueUrl}/health`)).ok, 'the queue answers');
    for (let number = 1; number <= workers; number++) await this.#addWorker(`w${number}`, port, random);
    const allReady = async () => (await this.views()).filter(isReady).length === workers;
    await until(allReady, 'all workers are ready', { timeoutMs: 120_000, everyMs: 200 });
  }

  get callersUrl(): string {
    return `http://127.0.0.1:${this.callers.port}`;
  }

  get stateDir(): string {
    return join(this.folder, 'state');
  }

  async views(): Promise<WorkerView[]> {
    const response = await fetch(`${this.queueUrl}/api/workers`, { signal: AbortSignal.timeout(5000) });
    return ((await response.json()) as { workers: WorkerView[] }).workers;
  }

  /** Requests that this worker's engine has, running and waiting. @throws Error when it does not answer */
  async engineRequests({ enginePort }: SoakWorker): Promise<number> {
    const page = await fetch(`http://127.0.0.1:${enginePort}/metrics`, { signal: AbortSignal.timeout(5000) });
    const gauges = (await page.text()).matchAll(/^vllm:num_requests_(?:running|waiting)\{.*\} (\S+)$/gm);
    return [...gauges].reduce((sum, [, value]) => sum + Number(value), 0);
  }

  /** The worker's own process and its engine, below their supervisor; null while there is none. */
  processesOf(
    worker: SoakWorker,
  ): { supervisor: number; worker: number | null; engine: number | null } | null {
    const supervisor = worker.kept.current?.pid;
    if (supervisor === undefined) return null;
    const children = childrenOf(supervisor);
    const find = (text: string) => children.find((pid) => commandLine(pid).includes(text)) ?? null;
    return {
      supervisor,
      worker: find('programs/worker.js'),
      engine: find(`--port ${worker.enginePort}`),
    };
  }

  heal(): void {
    this.callers.heal();
    for (const { proxy } of this.workers) proxy.heal();
  }

  /** Workers first, in order, then the queue. */
  async stop(): Promise<void> {
    this.heal();
    await Promise.all(this.workers.map(({ kept }) => kept.stop()));
    await this.queue.stop();
    await this.hooks.stop();
    await Promise.all(
      [this.callers, ...this.workers.map(({ proxy }) => proxy)].map((proxy) => proxy.close()),
    );
  }

  /** Files of results that were never acknowledged. */
  spooled(): string[] {
    return this.workers.flatMap(({ spool }) =>
      readdirSync(spool, { recursive: true, encoding: 'utf8', withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name)),
    );
  }

  /** @param happened what else is worth knowing, one line each */
  writeLogs(happened: readonly object[]): string {
    const folder = join(this.folder, 'logs');
    mkdirSync(folder, { recursive: true });
    for (const kept of [this.queue, ...this.workers.map((worker) => worker.kept)]) {
      writeFileSync(join(folder, `${kept.name}.log`), kept.output());
    }
    writeFileSync(join(folder, 'faults.log'), happened.map((one) => `${JSON.stringify(one)}\n`).join(''));
    return folder;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #startQueue(port: number) {
    return cli(['queue', '--port', String(port), '--state', this.stateDir], {
      ...this.#env,
      QUEUE_LEASE_SECONDS: String(TIMES.lease),
      QUEUE_RECONNECT_GRACE_SECONDS: String(TIMES.grace),
      QUEUE_PING_SECONDS: String(TIMES.ping),
      QUEUE_WEBHOOK_HOSTS: this.hooks.allowed,
      QUEUE_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32).toString('base64')}`,
    });
  }

  async #addWorker(id: string, queuePort: number, random: () => number): Promise<void> {
    const proxy = await new FaultyProxy(queuePort, random).listen();
    const enginePort = await freePort();
    const spool = join(this.folder, 'spool', id);
    mkdirSync(spool, { recursive: true });
    const address = `127.0.0.1:${proxy.port}`;
    const env = {
      ...this.#env,
      ENGINE: 'simulator',
      VLLM_MODEL: modelOf(id),
      VLLM_PORT: String(enginePort),
      VLLM_EXTRA_ARGS: `--inter-token-latency-ms ${TOKEN_MS} --disable-uvicorn-access-log --max-model-len 1m`,
      CASOLA_WS_URL: `ws://${address}`,
      CASOLA_API_URL: `http://${address}`,
      CASOLA_CONFIG_ID: 'soak',
      CASOLA_INSTANCE_ID: id,
      CASOLA_MAX_JOBS: String(SLOTS),
      CASOLA_RENEW_LEASE_AFTER: String(TIMES.renewAfter),
      CASOLA_SHUTDOWN_GRACE_PERIOD: String(TIMES.drain),
      CASOLA_HEARTBEAT_INTERVAL: '5',
      WORKER_SPOOL_DIR: spool,
    };
    const kept = new Kept(id, () => cli(['supervise'], env, `worker ${id}`));
    this.workers.push({ id, kept, proxy, enginePort, spool });
    kept.run();
  }
}

function isReady(view: WorkerView): boolean {
  return view.state === 'ready';
}
