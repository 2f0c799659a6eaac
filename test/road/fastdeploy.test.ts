import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { bundle } from '../support/bundles.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
  workers,
} from '../support/road.ts';

/** The road over an engine in FastDeploy's dialect: `ENGINE=fastdeploy`, its command, ports and health. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
});
afterAll(tearDown);

it('runs jobs on FastDeploy, and ends when its server says that its workers are dead', async () => {
  const worker = await readyWorker(queue.url, 'paddle', {
    env: {
      ENGINE: 'fastdeploy',
      VLLM_SERVE_COMMAND: `${process.execPath} ${bundle('simulator')} --dialect fastdeploy`,
      ENGINE_HANG_SECONDS: '5',
    },
  });
  const { id } = await submit(queue.url, chatJob(5));
  expect(await settled(queue.url, id)).toMatchObject({ state: 'succeeded', worker_id: 'paddle' });
  await fetch(`${worker.engineUrl}/simulator/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"die_after_tokens": 3}',
  });
  await submit(queue.url, chatJob(50));
  expect((await worker.process.exited).code).toBe(EXIT.engineDied);
  const gone = await until(
    async () => (await workers(queue.url)).find(({ state }) => state === 'disconnected'),
    'the queue knows that it is gone',
  );
  expect(gone).toMatchObject({ status: 'error', error_message: expect.stringContaining('not been healthy') });
});
