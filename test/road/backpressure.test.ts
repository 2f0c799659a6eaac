import { afterAll, afterEach, expect, test } from 'vitest';
import { BaseQueue } from '../support/base-queue.ts';
import { until } from '../support/poll.ts';
import { startWorker, tearDown, type WorkerProcess } from '../support/road.ts';

/** The worker's load watch with a real engine's metrics page: the simulator, two sequences at a time, eight slots. */
const queue = new BaseQueue();
let worker: WorkerProcess;
afterEach(async () => {
  await worker.process.stop();
  queue.close();
});
afterAll(tearDown);

const push = (id: string, maxTokens: number) =>
  queue.push({
    job_id: id,
    mode: 'persisted',
    fence_token: 1,
    payload: { messages: [{ role: 'user', content: 'hi' }], max_tokens: maxTokens, ignore_eos: true },
  });

test('a few requests that wait for the next step do not stop dispatch; a backlog does until it is gone', async () => {
  worker = await startWorker(await queue.listen(), 'load', {
    engineArgs: '--max-num-seqs 2 --time-to-first-token-ms 100 --inter-token-latency-ms 100',
    env: { CASOLA_BACKPRESSURE_CHECK_INTERVAL: '0.5' },
  });
  await until(() => queue.of('register')[0], 'the worker registered');

  // Four side by side: two of them always wait, and are soon taken up.
  const steady = 48;
  let pushed = 0;
  await until(() => {
    const ended = queue.of('job_result').length;
    while (pushed < steady && pushed - ended < 4) push(`s${pushed++}`, 1);
    return ended === steady;
  }, 'the short jobs ended');
  expect(queue.of('pause')).toEqual([]);

  const long = Array.from({ length: 8 }, (_, index) => `l${index}`);
  for (const id of long) push(id, 1000);
  await until(() => queue.of('pause')[0], 'six that wait stop dispatch');
  for (const id of long) queue.send({ type: 'job_revoked', job_id: id, reason: 'cancelled' });
  await until(() => queue.of('resume')[0], 'dispatch goes on');
});
