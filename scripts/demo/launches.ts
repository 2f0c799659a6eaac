import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Launcher } from '../../src/launcher/launcher.ts';
import { systemClock } from '../../src/process/clock.ts';
import type { Driver, LaunchRequest } from '../../src/providers/driver.ts';
import type {
  LauncherAnswer,
  LauncherReport,
  LaunchOutcome,
  ListedMachine,
} from '../../src/scheduler/rpc.ts';
import type { DemoPool } from './cast.ts';
import { DemoLoad } from './load.ts';
import { type DemoQueue, DemoWorker } from './worker.ts';

/** A pool of the demonstration that the real scheduler starts and ends, on machines that are made up. */
const LAUNCHED: DemoPool = {
  id: 'gemma-27b',
  model: 'google/gemma-3-27b-it',
  slots: 4,
  tokensPerSecond: 38,
  firstTokenMs: 240,
  gpu: { name: 'NVIDIA L40S', count: 2, memoryGib: 48, watts: 350 },
  startSeconds: 40,
  load: { stored: 9, callers: 2, maxTokens: 500 },
};

function specOf(image: string) {
  return {
    budget: { per_hour: 8, per_day: 120 },
    providers: { runpod: { driver: 'runpod' } },
    pools: {
      [LAUNCHED.id]: {
        model: LAUNCHED.model,
        image,
        slots: LAUNCHED.slots,
        max: 4,
        keep_warm: '30s',
        // The load may want all of `max`: an old machine then soon ends before its replacement starts.
        update: { patience: '5s' },
        machines: [{ provider: 'runpod', instance_type: 'NVIDIA L40S', gpus: 2, price_per_hour: 1.72 }],
      },
    },
  };
}

/** The images that the pool is given one after the other. Machines do not start with one of them. */
const BROKEN = 'registry.example/worker-vllm:1.6-rc1';
const IMAGES = ['registry.example/worker-vllm:1.4', 'registry.example/worker-vllm:1.5', BROKEN];
/** The last words of a machine with the broken image. */
const LAST_WORDS = [
  '[12:04:17.312] INFO: supervisor: starting vllm serve google/gemma-3-27b-it',
  '[12:04:31.020] ERROR: supervisor: vllm failed to start: unknown flag --enable-chunked-prefil in VLLM_EXTRA_ARGS',
].join('\n');

/** Work comes and goes, so that something starts or ends most of the time. */
const BUSY_MS = 100_000;
const QUIET_MS = 60_000;
/** Until a machine's container runs. */
const CONTAINER_MS = 5000;
/** The share of launches for which the provider has no machine. */
const NO_CAPACITY_SHARE = 0.1;

export interface DemoLaunches {
  /** Gives the pool the next image: its workers are replaced, or the image turns out to be broken. */
  roll(): Promise<void>;
  /** Ends the launcher and its machines. */
  stop(): Promise<void>;
}

/** @param quicker how long a start takes, and what is asked, where the whole is to go faster */
export async function startDemoLaunches(
  queue: DemoQueue,
  quicker: Partial<Pick<DemoPool, 'startSeconds' | 'load'>> = {},
): Promise<DemoLaunches> {
  const pool = { ...LAUNCHED, ...quicker };
  const post = async (path: string, body: unknown): Promise<unknown> => {
    const headers = { ...(queue.token && { authorization: `Bearer ${queue.token}` }) };
    const response = await fetch(`${queue.url}/api/${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`POST /api/${path}: ${response.status} ${await response.text()}`);
    return await response.json();
  };
  let rolls = 0;
  const roll = async () => {
    await post('fleet/spec', { spec: specOf(IMAGES[rolls++ % IMAGES.length]!) });
  };
  await roll();
  const driver = new DemoDriver(queue, pool);
  const stopped = new AbortController();
  const launcher = new Launcher(
    {
      clock: { ...systemClock, now: () => Date.now() },
      random: Math.random,
      log: { debug: () => {}, info: () => {}, warn: console.warn, error: console.error },
      makeDriver: async () => driver,
      sync: (report: LauncherReport) => post('launchers/demo/sync', report) as Promise<LauncherAnswer>,
    },
    {
      drivers: ['runpod'],
      host: 'demo',
      road: { url: queue.url, queueId: 'vllm-queue' },
      env: {},
      endsMachines: false,
    },
  );
  const running = Promise.all([launcher.run(stopped.signal), comeAndGo(queue, pool, stopped.signal)]);
  return {
    roll,
    stop: async () => {
      stopped.abort();
      await driver.end();
      await running;
    },
  };
}

async function comeAndGo(queue: DemoQueue, pool: DemoPool, stopped: AbortSignal): Promise<void> {
  while (!stopped.aborted) {
    const load = new DemoLoad(queue);
    load.start(pool);
    await sleep(BUSY_MS, undefined, { signal: stopped }).catch(() => {});
    load.stop();
    await sleep(QUIET_MS, undefined, { signal: stopped }).catch(() => {});
  }
}

/** A provider whose machines are workers of the demonstration in this process. */
class DemoDriver implements Driver {
  readonly #queue: DemoQueue;
  readonly #pool: DemoPool;
  readonly #machines = new Map<string, ListedMachine & { worker: DemoWorker | null }>();

  constructor(queue: DemoQueue, pool: DemoPool) {
    this.#queue = queue;
    this.#pool = pool;
  }

  async launch({ name, price_per_hour, env, image }: LaunchRequest): Promise<LaunchOutcome> {
    const known = this.#machines.get(name);
    if (known) return { kind: 'launched', external_id: known.external_id, price_per_hour };
    if (this.#machines.size > 0 && Math.random() < NO_CAPACITY_SHARE) {
      return {
        kind: 'no_capacity',
        detail: 'There are no longer any instances available with these specifications.',
      };
    }
    const external_id = randomBytes(7).toString('hex');
    this.#machines.set(name, {
      ...{
        external_id,
        name,
        state: 'starting',
        price_per_hour,
        exit_code: null,
        detail: null,
        worker: null,
      },
      ...{ created_at: Date.now(), started_at: null, ended_at: null },
    });
    // By it the queue knows what the machine costs, also where it asks for none.
    const queue = { ...this.#queue, token: env.CASOLA_API_TOKEN };
    const version = env.CASOLA_VERSION ?? null;
    const run = () => (image === BROKEN ? this.#fail(name) : this.#run(name, version, queue));
    setTimeout(run, CONTAINER_MS).unref();
    return { kind: 'launched', external_id, price_per_hour };
  }

  #fail(name: string): void {
    const now = Date.now();
    const ended = { state: 'ended', started_at: now, ended_at: now, exit_code: 2, detail: LAST_WORDS };
    Object.assign(this.#machines.get(name)!, ended);
  }

  #run(name: string, version: string | null, queue: DemoQueue): void {
    const machine = this.#machines.get(name)!;
    if (machine.state !== 'starting') return;
    const part = {
      workerId: name,
      pool: this.#pool,
      version,
      role: 'works',
      ageSeconds: CONTAINER_MS / 1000,
    } as const;
    const worker = new DemoWorker(part, queue);
    Object.assign(machine, { state: 'running', started_at: Date.now(), worker });
    void worker.load(0);
  }

  async list(prefix: string): Promise<ListedMachine[]> {
    return [...this.#machines.values()].flatMap(({ worker, ...machine }) =>
      machine.name.startsWith(prefix) ? [machine] : [],
    );
  }

  async terminate({ name }: { name: string }): Promise<LaunchOutcome> {
    const machine = this.#machines.get(name);
    if (machine && machine.state !== 'ended') {
      Object.assign(machine, { state: 'ended', ended_at: Date.now() });
      await machine.worker?.stop();
    }
    return { kind: 'terminated' };
  }

  async end(): Promise<void> {
    await Promise.all([...this.#machines.keys()].map((name) => this.terminate({ name })));
  }
}
