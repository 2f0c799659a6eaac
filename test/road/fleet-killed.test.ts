import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import type { LaunchState } from '../../src/protocol/index.ts';
import {
  fleetView,
  isAlive,
  printed,
  type RunningLauncher,
  startLauncher,
  WorkerCensus,
  writeFleet,
} from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import {
  chatJob,
  cli,
  job,
  processesWith,
  type QueueProcess,
  startQueue,
  stateFolder,
  submit,
  tearDown,
} from '../support/road.ts';

/** What decides and what launches are killed while a launch is at each of its steps. Each test has a fleet of its own. */
afterAll(tearDown);

const SLOW = { timeoutMs: 120_000, everyMs: 20 };

/**
 * Which is killed at the first step, and which at the second, and so on. A launcher that is killed with an order in its
 * hands gets it again after a minute, so the other way round is for `TEST_KILLS=1`.
 */
const ORDERS = [
  ['queue', 'launcher'] as const,
  ...(process.env.TEST_KILLS ? [['launcher', 'queue'] as const] : []),
];

/** In the order in which a launch has them. */
const STEPS: LaunchState[] = [
  'intended',
  'requested',
  'accepted',
  'registered',
  'ready',
  'draining',
  'terminating',
  'gone',
];

class Road {
  queue!: QueueProcess;
  launcher!: RunningLauncher;
  readonly path = join(stateFolder(), 'fleet.yaml');

  async start(): Promise<void> {
    writeFleet(this.path, { pools: { cfg: { max: 2 } } });
    this.queue = await startQueue();
    this.launcher = startLauncher(this.queue.url, this.path);
    await this.launcher.process.waitForLine(/It costs/);
  }

  async killAndStartAgain(what: 'queue' | 'launcher'): Promise<void> {
    const { queue, launcher } = this;
    this[what].process.kill('SIGKILL');
    await this[what].process.exited;
    if (what === 'queue') this.queue = await startQueue(queue);
    else this.launcher = startLauncher(queue.url, this.path, launcher.stateDir);
  }

  /** Waits until a launch is at a step, or beyond it. */
  untilStep(step: LaunchState): Promise<unknown> {
    const at = STEPS.indexOf(step);
    return until(
      async () => (await fleetView(this.queue.url)).launches.some(({ state }) => STEPS.indexOf(state) >= at),
      `a launch is ${step}`,
      SLOW,
    );
  }
}

describe.concurrent('a fleet whose queue and launcher are killed', () => {
  it.each(ORDERS)(
    'has no machine twice, forgets none and loses no job: first the %s, then the %s, and so on',
    { timeout: 300_000 },
    async (one, other) => {
      const road = new Road();
      await road.start();
      const census = new WorkerCensus(road.launcher.stateDir);
      const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
      for (const id of ids) await submit(road.queue.url, chatJob(20, { id }));
      for (const [index, step] of STEPS.slice(1, -1).entries()) {
        await road.untilStep(step);
        await road.killAndStartAgain(index % 2 === 0 ? one : other);
      }
      const { url } = road.queue;
      for (const id of ids) {
        await until(async () => (await job(url, id)).state === 'succeeded', `job ${id} succeeded`, SLOW);
      }
      await until(async () => !(await fleetView(url)).launches.some(isAlive), 'all have ended', SLOW);
      expect(await census.running()).toEqual([]);
      census.stop();
      expect(census.mostOfOneName).toBe(1);
      expect(census.mostAtOnce).toBeLessThanOrEqual(2);
      // What ended did so by the scheduler's own doing.
      const { launches } = await fleetView(url);
      expect(launches.filter(({ state }) => state === 'failed')).toEqual([]);
      expect(await printed(['fleet', 'status', '--url', url])).toMatch(/^cfg +0 +0 +0 +0 /m);
    },
  );
});

describe.concurrent('worker-vllm up --fleet that is killed', () => {
  it('leaves its machines, and the next start takes them over and ends those that nobody wants any more', {
    timeout: 300_000,
  }, async () => {
    const [stateDir, port] = [stateFolder(), await freePort()];
    const url = `http://127.0.0.1:${port}`;
    const path = join(stateFolder(), 'fleet.yaml');
    const pool = { min: 1, max: 1 };
    writeFleet(path, { pools: { kept: pool, dropped: pool } });
    const start = () => cli(['up', '--fleet', path, '--port', String(port), '--state', stateDir]);
    const launchOf = async (config: string) =>
      (await fleetView(url)).launches.find(({ config_id }) => config_id === config);
    const isReady = async (config: string) => (await launchOf(config))?.state === 'ready';
    const first = start();
    await until(async () => (await isReady('kept')) && (await isReady('dropped')), 'both are ready', SLOW);
    const name = (await launchOf('kept'))!.name;
    const census = new WorkerCensus(stateDir);
    const before = await census.running();
    expect(before).toHaveLength(2);

    first.kill('SIGKILL');
    await first.exited;
    expect(await census.running()).toEqual(before);

    writeFleet(path, { pools: { kept: pool } });
    const next = start();
    await until(async () => (await census.running()).length === 1, 'the one is ended', SLOW);
    await until(() => isReady('kept'), 'the other is ready', SLOW);
    const alive = async () => (await fleetView(url)).launches.filter(isAlive).map((one) => one.name);
    await until(async () => (await alive()).join() === name, 'only its launch is left', SLOW);
    expect(before).toEqual(expect.arrayContaining(await census.running()));
    census.stop();
    expect(census.mostOfOneName).toBe(1);
    expect(census.mostAtOnce).toBe(2);

    next.kill('SIGTERM');
    expect((await next.exited).code).toBe(EXIT.ok);
    expect(await processesWith(stateDir)).toEqual([]);
  });
});
