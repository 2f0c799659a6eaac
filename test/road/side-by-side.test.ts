import { afterAll, beforeAll, expect, it } from 'vitest';
import { type QueueProcess, readyWorker, startQueue, tearDown, untilReady } from '../support/road.ts';

/** How many jobs a worker takes, and what its engine could run. */
let queue: QueueProcess;
beforeAll(async () => {
  queue = await startQueue();
});
afterAll(tearDown);

it('takes as many as its engine runs side by side where CASOLA_MAX_JOBS is auto', async () => {
  await readyWorker(queue.url, 'auto', { env: { CASOLA_MAX_JOBS: 'auto', MAX_NUM_SEQS: '3' } });
  expect(await untilReady(queue.url, 'auto')).toMatchObject({ capacity: 3, engine_requests: 3 });
});

it('takes one where nothing is said, and says what the engine could run', async () => {
  const worker = await readyWorker(queue.url, 'one', {
    engineArgs: '--max-num-seqs 12',
    env: { CASOLA_MAX_JOBS: '' },
  });
  expect(await untilReady(queue.url, 'one')).toMatchObject({ capacity: 1, engine_requests: 12 });
  await worker.process.waitForLine(/takes one job at a time; the engine could run 12 side by side/);
});
