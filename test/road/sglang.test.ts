import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXIT } from '../../src/process/index.ts';
import { bundle } from '../support/bundles.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  HELD,
  type QueueProcess,
  readyWorker,
  setPace,
  settled,
  startQueue,
  submit,
  tearDown,
  untilReady,
  workers,
} from '../support/road.ts';

/** The road over an engine in SGLang's dialect: `ENGINE=sglang`, its command, flags and gauges. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
});
afterAll(tearDown);

it('runs jobs on SGLang with its own flags, sees its gauges, and ends when it dies', async () => {
  const worker = await readyWorker(queue.url, 'sg', {
    env: {
      ENGINE: 'sglang',
      VLLM_SERVE_COMMAND: `${process.execPath} ${bundle('simulator')} --dialect sglang ${HELD}`,
      MAX_NUM_SEQS: '3',
      MAX_MODEL_LEN: '2K',
      CASOLA_MAX_JOBS: 'auto',
      CASOLA_HEARTBEAT_INTERVAL: '1',
    },
  });
  expect(await untilReady(queue.url, 'sg')).toMatchObject({ capacity: 3, engine_requests: 3 });
  const models = (await (await fetch(`${worker.engineUrl}/v1/models`)).json()) as {
    data: { max_model_len: number }[];
  };
  expect(models.data[0]?.max_model_len).toBe(2048);
  const { id } = await submit(queue.url, chatJob(600));
  await until(async () => {
    const fleet = (await (await fetch(`${queue.url}/api/fleet`)).json()) as {
      workers: { engine_running: number | null }[];
    };
    return fleet.workers[0]?.engine_running === 1;
  }, 'its gauge counts the request');
  await setPace(worker.engineUrl, 5);
  expect(await settled(queue.url, id)).toMatchObject({ state: 'succeeded', worker_id: 'sg' });
  await fetch(`${worker.engineUrl}/simulator/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"die_after_tokens": 3}',
  });
  await submit(queue.url, chatJob(50));
  expect((await worker.process.exited).code).toBe(EXIT.engineDied);
  const gone = (await workers(queue.url)).find((view) => view.worker_id === 'sg');
  expect(gone).toMatchObject({ status: 'error' });
});
