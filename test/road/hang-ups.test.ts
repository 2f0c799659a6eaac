import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { rawCaller } from '../support/raw-caller.ts';
import {
  engineRunning,
  type QueueProcess,
  readyWorker,
  setFirstToken,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** What an engine still does for callers that have left: nothing, as if they had called it directly. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startQueue();
  worker = await readyWorker(queue.url, 'w', { env: { CASOLA_MAX_JOBS: '4' } });
  // No byte comes before the caller leaves, nor long after.
  await setFirstToken(worker.engineUrl, 600_000);
});
afterAll(tearDown);

it.each([
  ['streams', '/v1/chat/completions', true],
  ['answers in one piece', '/v1/chat/completions', false],
  ['another route', '/v1/completions', true],
])('callers that close or break off free the engine and the queue: %s', async (_what, path, stream) => {
  const body = { model: 'tiny', prompt: 'x', messages: [{ role: 'user', content: 'x' }], stream };
  const callers = await Promise.all(Array.from({ length: 8 }, () => rawCaller(queue.url, path, body)));
  const pending = async () =>
    ((await (await fetch(`${queue.url}/health`)).json()) as { pending: number }).pending;
  await until(async () => (await engineRunning(worker.engineUrl)) === 4, 'four run');
  await until(async () => (await pending()) === 4, 'four wait');
  for (const [index, caller] of callers.entries()) {
    if (index % 2 === 0) caller.close();
    else caller.reset();
  }
  await until(
    async () => (await engineRunning(worker.engineUrl)) + (await pending()) === 0,
    'nothing is done for them any more',
  );
  expect(callers.every((caller) => !caller.heard().includes('data:'))).toBe(true);
});
