import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { stringify } from 'yaml';
import type { FleetView, JobView, LaunchRow } from '../../src/protocol/index.ts';
import { isAlive } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { type Child, stopAllProcesses } from '../support/processes.ts';
import { chatJob, cli, type QueueProcess, startQueue, stateFolder } from '../support/road.ts';
import {
  HOST_ADDRESS,
  nameOf,
  newNamespace,
  podsOf,
  removeNamespaces,
  SLOW,
  WORKER_IMAGE,
} from './cluster.ts';

/** Fleets whose workers are pods, over the commands that operators type: queue and launcher run on this machine. */

export interface FleetOptions {
  pool?: Record<string, unknown>;
  pod?: object;
  /** Of the launcher: another kubeconfig. */
  env?: NodeJS.ProcessEnv;
}

const QUICK = {
  engine: 'simulator',
  model: 'tiny',
  image: WORKER_IMAGE,
  slots: 2,
  wanted_wait: 1,
  scale_down_after: '3s',
  keep_warm: '1s',
  env: {
    CASOLA_HEARTBEAT_INTERVAL: 2,
    CASOLA_SHUTDOWN_GRACE_PERIOD: 1,
    VLLM_EXTRA_ARGS: '--inter-token-latency-ms 20',
  },
};

export const TOKEN = 'a-token-of-these-tests';

/** @throws Error with what the queue answers to it, where that is no success */
export async function call<T>(url: string, path: string, body?: unknown, token = TOKEN): Promise<T> {
  const response = await fetch(`${url}${path}`, {
    headers: { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

const started: PodFleet[] = [];

/** For `afterEach`: ends all, and holds what every test promises. */
export async function endFleets(): Promise<void> {
  const ended = started.splice(0);
  for (const { census } of ended) await census.stop();
  await stopAllProcesses();
  await removeNamespaces();
  for (const { census } of ended) expect([...census.takenForGone]).toEqual([]);
}

export class PodFleet {
  readonly namespace: string;
  readonly queue: QueueProcess;
  readonly census: Census;
  readonly #path = join(stateFolder(), 'fleet.yaml');
  readonly #stateDir = stateFolder();
  launcher!: Child;

  private constructor(namespace: string, queue: QueueProcess) {
    this.namespace = namespace;
    this.queue = queue;
    this.census = new Census(this);
  }

  /** A queue that pods reach, and a launcher for a fleet with one pool, `cfg`. */
  static async start({ pool, pod, env }: FleetOptions = {}): Promise<PodFleet> {
    const listen = { QUEUE_HOST: '0.0.0.0', QUEUE_TOKENS: `admin:${TOKEN}` };
    const fleet = new PodFleet(await newNamespace(), await startQueue({ env: listen }));
    started.push(fleet);
    fleet.write({ ...(pool && { pool }), ...(pod && { pod }) });
    await fleet.launch(env);
    return fleet;
  }

  get url(): string {
    return this.queue.url;
  }

  write({ pool = {}, pod }: Omit<FleetOptions, 'env'>): void {
    const pods = { driver: 'kubernetes', namespace: this.namespace, ...(pod && { pod }) };
    const cfg = { ...QUICK, machines: [{ provider: 'pods', gpus: 0 }], ...pool };
    writeFileSync(this.#path, stringify({ providers: { pods }, pools: { cfg } }));
  }

  /** Starts the launcher, again where one was killed. */
  async launch(env: NodeJS.ProcessEnv = {}): Promise<void> {
    const workerUrl = `http://${HOST_ADDRESS}:${this.queue.port}`;
    const args = ['launcher', this.#path, '--url', this.url, '--worker-url', workerUrl];
    const own = ['--drivers', 'kubernetes', '--id', 'outside', '--state', this.#stateDir];
    this.launcher = cli([...args, ...own], { CASOLA_API_TOKEN: TOKEN, ...env });
    await this.launcher.waitForLine(/It costs|in force as it was/);
  }

  async kill(): Promise<void> {
    this.launcher.kill('SIGKILL');
    await this.launcher.exited;
  }

  async launches(): Promise<LaunchRow[]> {
    return (await call<FleetView>(this.url, '/api/fleet')).launches;
  }

  /** What the scheduler says of its pool. */
  async poolText(): Promise<string> {
    const { pools } = await call<FleetView>(this.url, '/api/fleet');
    return pools.find(({ config_id }) => config_id === 'cfg')?.scaling?.decision?.text ?? '';
  }

  async submit(count: number, tokens = 20): Promise<string[]> {
    const ids = Array.from({ length: count }, () => crypto.randomUUID());
    for (const id of ids) await call(this.url, '/api/jobs', chatJob(tokens, { id }));
    return ids;
  }

  async untilDone(ids: string[]): Promise<void> {
    for (const id of ids) {
      const path = `/api/jobs/${id}?wait=10`;
      const isDone = async () => (await call<JobView>(this.url, path)).state === 'succeeded';
      await until(isDone, `job ${id} succeeded`, SLOW);
    }
  }

  /** @returns what it was waited for */
  untilLaunch(what: string, is: (launch: LaunchRow) => boolean): Promise<LaunchRow> {
    return until(async () => (await this.launches()).find(is), `a launch is ${what}`, SLOW);
  }

  /** Nothing is left of it, here and there. */
  async untilEmpty(): Promise<void> {
    await until(async () => !(await this.launches()).some(isAlive), 'all launches have ended', SLOW);
    await until(async () => (await podsOf(this.namespace)).length === 0, 'no pod is left', SLOW);
  }
}

/**
 * Looks again and again which pods there are, and holds the launches against them: what the scheduler calls gone is not
 * there any more.
 */
export class Census {
  readonly #fleet: Pick<PodFleet, 'namespace' | 'launches'>;
  readonly #looks: Promise<void>;
  #isOver = false;
  /** The most pods at once, those that are told to end included. */
  mostAtOnce = 0;
  /** Pods that were there after their launch had been called gone. */
  readonly takenForGone = new Set<string>();

  constructor(fleet: Pick<PodFleet, 'namespace' | 'launches'>) {
    this.#fleet = fleet;
    this.#looks = this.#look();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#looks;
  }

  async #look(): Promise<void> {
    while (!this.#isOver) {
      try {
        // In this order: what is gone by the first answer must be missing in the second.
        const launches = await this.#fleet.launches();
        const pods = (await podsOf(this.#fleet.namespace)).map(nameOf);
        this.mostAtOnce = Math.max(this.mostAtOnce, pods.length);
        for (const launch of launches) {
          if (!isAlive(launch) && pods.includes(launch.name)) this.takenForGone.add(launch.name);
        }
      } catch {
        // Queue or API server are not there for a while.
      }
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}
