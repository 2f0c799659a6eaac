import { join } from 'node:path';
import { afterAll, afterEach, expect, it } from 'vitest';
import { ensureLlama } from '../../scripts/engines/setup.ts';
import { fleetView, isAlive, printed, startLauncher, writeFleet } from '../support/fleet-road.ts';
import { until } from '../support/poll.ts';
import { stopAllProcesses } from '../support/processes.ts';
import { startQueue, stateFolder, tearDown } from '../support/road.ts';

/** A pool of a fleet whose workers start llama.cpp: by need, and anew under requests when the file changes. */
afterEach(stopAllProcesses);
afterAll(tearDown);

const SLOW = { timeoutMs: 120_000 };

/** The finish of a stream; its answer's text where it is none. */
async function finishOf(url: string): Promise<string> {
  const messages = [{ role: 'user', content: 'Say hello.' }];
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ model: 'talk', messages, max_tokens: 300, stream: true }),
  });
  const text = await response.text();
  return /"finish_reason":\s*"(\w+)"/.exec(text)?.[1] ?? `${response.status} ${text.slice(-500)}`;
}

it('is started by the first request, and replaced while streams go on to their end', {
  timeout: 300_000,
}, async () => {
  const { server, model } = await ensureLlama();
  const queue = await startQueue();
  const path = join(stateFolder(), 'fleet.yaml');
  const write = (context: string) =>
    writeFleet(path, {
      pools: {
        talk: {
          engine: 'llama-cpp',
          model,
          slots: 4,
          max: 3,
          scale_down_after: '5m',
          env: {
            VLLM_SERVE_COMMAND: server,
            VLLM_EXTRA_ARGS: '--threads 1 --no-warmup',
            MAX_MODEL_LEN: context,
            CASOLA_HEARTBEAT_INTERVAL: 2,
            CASOLA_SHUTDOWN_GRACE_PERIOD: 60,
          },
        },
      },
    });
  write('4K');
  startLauncher(queue.url, path);
  await until(async () => (await fleetView(queue.url)).pools.length === 1, 'the file is applied', SLOW);
  expect(await finishOf(queue.url)).toBe('length');
  const ready = async () => (await fleetView(queue.url)).launches.filter(({ state }) => state === 'ready');
  const [first] = await until(async () => {
    const now = await ready();
    return now.length === 1 ? now : null;
  }, 'one is ready');

  const finishes: string[] = [];
  let isOver = false;
  const call = async () => {
    while (!isOver) finishes.push(await finishOf(queue.url));
  };
  const callers = Promise.all([call(), call()]);
  write('8K');
  await until(
    async () => {
      const now = await ready();
      return now.length > 0 && now.every(({ id }) => id !== first!.id);
    },
    'another one is ready, and the first one is gone',
    SLOW,
  );
  isOver = true;
  await callers;
  // Workers as processes outlive their launcher.
  await printed(['fleet', 'remove', '--url', queue.url]);
  await until(async () => !(await fleetView(queue.url)).launches.some(isAlive), 'all have ended', SLOW);
  expect(finishes.length).toBeGreaterThan(0);
  expect(finishes.filter((finish) => finish !== 'length')).toEqual([]);
});
