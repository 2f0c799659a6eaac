import { afterAll, beforeAll, expect, it } from 'vitest';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import { engineRunning, readyWorker, tearDown, type WorkerProcess } from '../support/road.ts';

/** In the runtime of `wrangler dev` without its proxy, which does not pass on that a caller hangs up. */
let queue: MiniflareQueue;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startMiniflareQueue({});
  // An answer takes ten minutes, unless it is cancelled.
  worker = await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 20' });
});
afterAll(async () => {
  await tearDown();
  await queue.stop();
});

it.each([{ stream: false }, { stream: true }])(
  'a caller that hangs up frees the engine (%j)',
  async (more) => {
    const hangUp = new AbortController();
    const messages = [{ role: 'user', content: 'Tell me something.' }];
    const answer = fetch(`${queue.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tiny', messages, max_tokens: 30_000, ignore_eos: true, ...more }),
      signal: hangUp.signal,
    })
      .then((response) => response.text())
      .catch(() => 'hung up');
    await until(async () => (await engineRunning(worker.engineUrl)) === 1, 'the engine runs it');
    hangUp.abort();
    expect(await answer).toBe('hung up');
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine runs nothing');
  },
);
