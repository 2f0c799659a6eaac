import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { fleetView, isAlive, printed, startLauncher, writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { startQueue, stateFolder, tearDown } from '../support/road.ts';

/** A fleet's file that is changed under requests, as operators change it, with workers as processes of this machine. */
afterEach(stopAllProcesses);
afterAll(tearDown);

const SLOW = { timeoutMs: 90_000, everyMs: 100 };

/** Callers of these models who ask again as soon as they are answered. */
function callers(url: string, models: string[]) {
  let isOver = false;
  const failures: string[] = [];
  let answered = 0;
  const call = async (model: string) => {
    while (!isOver) {
      const body = JSON.stringify({ model, max_tokens: 10, messages: [{ role: 'user', content: 'Hello.' }] });
      const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body });
      const text = await response.text();
      if (response.status === 200) answered += 1;
      else failures.push(`${model}: ${response.status} ${text}`);
    }
  };
  const all = Promise.all(models.map(call));
  return {
    get answered() {
      return answered;
    },
    failures,
    stop: async () => {
      isOver = true;
      await all;
    },
  };
}

async function models(url: string): Promise<string[]> {
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
  return data.map(({ id }) => id);
}

it('goes on serving while its workers are replaced one by one, and no request fails', {
  timeout: 240_000,
}, async () => {
  const queue = await startQueue();
  const path = join(stateFolder(), 'fleet.yaml');
  // The callers keep as many workers busy as there may be, so one of before has to go first.
  const pool = {
    min: 2,
    max: 3,
    update: { patience: '5s' },
    env: { VLLM_EXTRA_ARGS: '--inter-token-latency-ms 20' },
  };
  writeFleet(path, { pools: { demo: { ...pool, model: 'before' } } });
  const launcher = startLauncher(queue.url, path);
  const ready = async () => (await fleetView(queue.url)).launches.filter(({ state }) => state === 'ready');
  const first = await until(
    async () => ((await ready()).length === 2 ? await ready() : null),
    'two workers are ready',
    SLOW,
  );

  // By the pool's name and by "default": whichever worker serves.
  const load = callers(queue.url, ['default', 'demo', 'demo']);
  await until(async () => load.answered > 10, 'requests are answered', SLOW);
  // Otherwise one goes first while the third, which the callers need, takes longer to start than the patience is.
  await until(async () => (await ready()).length === 3, 'the third is ready', SLOW);
  let fewest = 2;
  const watch = setInterval(async () => {
    const serving = (await fleetView(queue.url)).workers.filter(
      ({ state }) => state === 'ready' || state === 'running' || state === 'paused',
    );
    fewest = Math.min(fewest, serving.length);
  }, 100);
  writeFleet(path, { pools: { demo: { ...pool, model: 'after' } } });
  await launcher.process.waitForLine(/replaced step by step/, 90_000);
  // The new name waits for the worker that will serve it.
  const early = callers(queue.url, ['after']);
  await until(
    async () => {
      const now = await ready();
      return now.length >= 2 && !now.some(({ id }) => first.some((one) => one.id === id));
    },
    'both are replaced',
    SLOW,
  );
  await until(async () => early.answered > 0, 'the new name is answered', SLOW);
  clearInterval(watch);
  await load.stop();
  await early.stop();
  expect([load.failures, early.failures]).toEqual([[], []]);
  expect(fewest).toBe(2);

  // Old name: the list says what is served, and nothing else.
  await until(async () => !(await models(queue.url)).includes('before'), 'the old name is listed no more');
  const body = JSON.stringify({ model: 'before', messages: [{ role: 'user', content: 'Hello.' }] });
  const refused = await fetch(`${queue.url}/v1/chat/completions`, { method: 'POST', body });
  expect([refused.status, await refused.text()]).toEqual([404, expect.stringMatching(/they serve after/)]);
  await printed(['fleet', 'remove', '--url', queue.url]);
  await until(async () => !(await fleetView(queue.url)).launches.some(isAlive), 'all have ended', SLOW);
});
