import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { fleetView, isAlive, printed, startLauncher, writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { cli, processesWith, startQueue, stateFolder, tearDown } from '../support/road.ts';

/** Fleets whose workers start and end by need, as operators start them. Each test has a fleet of its own. */
afterAll(tearDown);

/** Processes that start on a busy machine. */
const LONG = { timeout: 240_000 };
const SLOW = { timeoutMs: 90_000, everyMs: 100 };

async function ask(url: string): Promise<number> {
  const body = { model: 'tiny', max_tokens: 20, messages: [{ role: 'user', content: 'Say hello.' }] };
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
  await response.text();
  return response.status;
}

/** Callers who ask again as soon as they are answered, until they are stopped; the statuses they got. */
function callers(url: string, count: number) {
  let isOver = false;
  const statuses: number[] = [];
  const call = async () => {
    while (!isOver) statuses.push(await ask(url));
  };
  const all = Promise.all(Array.from({ length: count }, call));
  return {
    stop: async () => {
      isOver = true;
      await all;
      return statuses;
    },
  };
}

async function readyWorkers(url: string): Promise<number> {
  return (await fleetView(url)).launches.filter(({ state }) => state === 'ready').length;
}

describe.concurrent('worker-vllm up --fleet', () => {
  it(
    'starts workers while requests wait, follows its file, ends them when none come, and leaves nothing',
    LONG,
    async () => {
      const [stateDir, port] = [stateFolder(), await freePort()];
      const url = `http://127.0.0.1:${port}`;
      const path = join(stateFolder(), 'fleet.yaml');
      const demo = { max: 2, env: { VLLM_EXTRA_ARGS: '--inter-token-latency-ms 40' } };
      writeFleet(path, { pools: { demo } });
      const up = cli(['up', '--fleet', path, '--port', String(port), '--state', stateDir]);
      await up.waitForLine(/Workers start when requests come/);

      const load = callers(url, 10);
      await up.waitForLine(/demo: \d+ wait, starting .* of 2\)\. \d+ workers? wanted: /);
      await until(async () => (await readyWorkers(url)) === 2, 'two workers are ready', SLOW);
      writeFleet(path, { pools: { demo: { ...demo, max: 3 } } });
      await until(async () => (await readyWorkers(url)) === 3, 'the third is ready', SLOW);
      const statuses = await load.stop();
      expect(statuses.filter((status) => status !== 200)).toEqual([]);
      await up.waitForLine(/demo: ready after \d/);

      await until(async () => !(await fleetView(url)).launches.some(isAlive), 'all have ended', SLOW);
      await up.waitForLine(/demo: draining a worker\. .+/);
      expect(await printed(['fleet', 'status', '--url', url])).toMatch(/^demo +0 +0 +0 +0 +0 +0\.00 /m);

      // From nothing again, and then the end of it all.
      const asked = ask(url);
      // Looked for before the answer: a worker that nobody needs any more may have ended a few seconds after it.
      await until(
        async () => (await processesWith(join(stateDir, 'processes'))).length > 0,
        'a worker starts',
      );
      expect(await asked).toBe(200);
      up.kill('SIGTERM');
      expect((await up.exited).code).toBe(EXIT.ok);
      expect(await processesWith(stateDir)).toEqual([]);
    },
  );

  it('says what is wrong with its file before anything starts', async () => {
    const path = join(stateFolder(), 'fleet.yaml');
    writeFleet(path, { pools: { demo: { mx: 3 } } });
    const up = cli(['up', '--fleet', path, '--port', '0', '--state', stateFolder()]);
    expect((await up.exited).code).toBe(EXIT.configuration);
    expect(up.output()).toMatch(
      /fleet\.yaml:\d+:\d+: pools\.demo\.mx: is not known here; did you mean max\?/,
    );
    expect(up.output()).not.toContain('Dashboard');
  });
});

describe.concurrent('worker-vllm fleet', () => {
  it(
    'shows a model that cannot be loaded and a budget that is reached, and obeys its operator',
    LONG,
    async () => {
      const queue = await startQueue();
      const path = join(stateFolder(), 'fleet.yaml');
      const failure = 'tiny is not a local folder and is not a valid model identifier';
      writeFleet(path, {
        budget: { per_hour: 1.5 },
        pools: {
          bad: { min: 1, env: { VLLM_EXTRA_ARGS: `--fault 'start_failure=${failure}'` } },
          dear: { min: 2, max: 2, machines: [{ provider: 'here', price_per_hour: 1 }] },
        },
      });
      const launcher = startLauncher(queue.url, path);
      const fleet = (...args: string[]) => printed(['fleet', ...args, '--url', queue.url]);
      await launcher.process.waitForLine(/bad: no more workers are started for now\. /, 90_000);
      await until(
        async () => (await readyWorkers(queue.url)) === 1,
        'what the budget pays for is ready',
        SLOW,
      );
      await until(async () => (await fleetView(queue.url)).scaling?.budget_reached, 'the budget is reached');
      const status = await fleet('status');
      expect(status).toMatch(/^bad +1 +0 /m);
      expect(status).toMatch(/^▲ bad: .*exit(ed)?.* (code )?9.*fleet resume bad/m);
      expect(status).toMatch(/^dear +2 +1 .* 1\.00 /m);
      expect(status).toMatch(/^▲ .*budget of \$1\.5/im);
      // Tried once, and not again and again.
      const { launches } = await fleetView(queue.url);
      expect(launches.filter(({ config_id }) => config_id === 'bad')).toHaveLength(1);

      await fleet('drain', 'dear');
      await until(async () => !(await fleetView(queue.url)).launches.some(isAlive), 'it is drained', SLOW);
      expect(await fleet('status')).toMatch(/▲ dear is drained: "worker-vllm fleet resume dear" ends that\./);
      await fleet('remove');
      expect(await fleet('status')).toMatch(/No fleet is applied/);
      expect(await processesWith(join(launcher.stateDir, 'processes'))).toEqual([]);
    },
  );
});
