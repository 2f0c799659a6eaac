import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestHarness } from 'wrangler';
import { until } from '../support/poll.ts';
import {
  chatJob,
  engineRunning,
  readyWorker,
  setPace,
  settled,
  stateFolder,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';
import { writeConfig } from '../support/wrangler-dev.ts';

/** Objects that the platform evicts, or resets for a deployment, while there is work. */

const NAME = 'vllm-queue';
/** Paces of the engine, ms a token: at the first, no answer ends before its objects were evicted. */
const PACE = { slow: 100, quick: 5 };
/** The runtime closes a connection that was idle for five seconds, also under a request that just takes it. */
const ALONE = { headers: { connection: 'close' } };
let url: string;
let worker: WorkerProcess;
let platform: ReturnType<typeof createTestHarness>;

beforeAll(async () => {
  const configPath = await writeConfig(stateFolder(), { QUEUE_RECONNECT_GRACE_SECONDS: '30' });
  platform = createTestHarness({ workers: [{ configPath }] });
  url = (await platform.listen()).url.origin;
  worker = await readyWorker(url, 'w', { engineArgs: `--inter-token-latency-ms ${PACE.slow}` });
});
afterAll(async () => {
  await tearDown();
  await platform.close();
});

/**
 * @param webSockets `hibernate` as for want of work, `close` as at a deployment
 * @returns whether it was evicted: one that is never idle for a while is not
 */
async function evict(object: string, webSockets: 'hibernate' | 'close'): Promise<boolean> {
  // One that is not running has been evicted already: this wakes it.
  await epoch();
  await fetch(`${url}/health`, ALONE);
  try {
    await platform.getWorker().evictDurableObject(object, { name: NAME, webSockets });
    return true;
  } catch (error) {
    if (/still has active references|not currently running/.test(String(error))) return false;
    throw error;
  }
}

/** Of this run of the fleet object. */
async function epoch(): Promise<string> {
  return ((await (await fetch(`${url}/api/fleet`, ALONE)).json()) as { epoch: string }).epoch;
}

/** Has begun when it is returned. */
async function stream(tokens: number): Promise<Response> {
  const messages = [{ role: 'user', content: 'Tell me something.' }];
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...ALONE.headers },
    body: JSON.stringify({ model: 'tiny', messages, max_tokens: tokens, ignore_eos: true, stream: true }),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response;
}

async function textOf(response: Response): Promise<string> {
  const text = await response.text();
  expect(text.trimEnd().endsWith('data: [DONE]'), text.slice(-500)).toBe(true);
  const events = text.split('\n').filter((line) => line.startsWith('data: {'));
  return events.map((line) => JSON.parse(line.slice(6)).choices[0]?.delta.content ?? '').join('');
}

const HOW = ['hibernate', 'close'] as const;

/**
 * Evicts again and again while the engine works, which is slow until that was done `least` times. The runtime evicts an
 * object once it is idle for a moment: it takes seconds.
 */
async function evictAll(
  objects: readonly string[],
  how: (typeof HOW)[number],
  least: number,
): Promise<number> {
  let evicted = 0;
  for (let at = 0; (await engineRunning(worker.engineUrl)) > 0; at += 1) {
    if (await evict(objects[at % objects.length]!, how)) evicted += 1;
    if (evicted === least) await setPace(worker.engineUrl, PACE.quick);
    await sleep(200);
  }
  await setPace(worker.engineUrl, PACE.slow);
  return evicted;
}

it.each(HOW)('every stored job ends once while its queue is evicted (%s)', async (how) => {
  const jobs = await Promise.all(Array.from({ length: 6 }, () => submit(url, chatJob(3000))));
  await until(async () => (await engineRunning(worker.engineUrl)) === 6, 'all run');
  expect(await evictAll(['QUEUE', 'FLEET'], how, 3)).toBeGreaterThan(2);
  for (const { id } of jobs) {
    expect(await settled(url, id)).toMatchObject({ state: 'succeeded', attempts: 1, attempt_errors: [] });
  }
});

it.each(HOW)('every stream is whole while what is beside it is evicted (%s)', async (how) => {
  const streams = [await stream(2000), await stream(2000)];
  const before = await epoch();
  expect(await evictAll(['FLEET'], how, 1)).toBeGreaterThan(0);
  expect(await epoch()).not.toBe(before);
  const [first, second] = await Promise.all(streams.map(textOf));
  expect(first).toBe(second);
  expect(first!.length).toBeGreaterThan(1000);
});
