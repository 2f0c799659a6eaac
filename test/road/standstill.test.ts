import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { FleetView } from '../../src/protocol/index.ts';
import { childrenOf, commandLine, signal } from '../soak/proc.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
  untilReady,
  type WorkerProcess,
  workers,
} from '../support/road.ts';

let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_LEASE_SECONDS: '4', QUEUE_PING_SECONDS: '2' } });
  worker = await readyWorker(queue.url, 'w', {
    engineArgs: '--inter-token-latency-ms 100',
    env: { CASOLA_HEARTBEAT_INTERVAL: '1' },
  });
});
afterAll(tearDown);

it('a worker that hangs at an idle queue is lost, and ready by itself when it goes on', async () => {
  const attention = async () =>
    ((await (await fetch(`${queue.url}/api/fleet`)).json()) as FleetView).attention.map(({ id }) => id);
  expect(await attention()).toEqual([]);
  // Its connections stay open: nothing tells their other end that it hangs.
  const pid = childrenOf(worker.process.pid).find((child) =>
    commandLine(child).includes('programs/worker.js'),
  )!;
  signal(pid, 'SIGSTOP');
  try {
    await until(async () => (await attention()).includes('worker_lost/w'), 'the worker is said to be lost');
    expect(await workers(queue.url)).toMatchObject([{ worker_id: 'w', state: 'disconnected' }]);
  } finally {
    signal(pid, 'SIGCONT');
  }
  await untilReady(queue.url, 'w');
  await until(async () => (await attention()).length === 0, 'nothing needs attention');
});

it('a queue that was stopped for several leases charges no job for it', async () => {
  const ids = [1, 2, 3, 4].map((n) => `job-${n}`);
  for (const id of ids) await submit(queue.url, chatJob(160, { id, max_attempts: 1 }));
  queue.process.kill('SIGSTOP');
  // The worker misses its pongs and dials again, in vain.
  await sleep(12_000);
  queue.process.kill('SIGCONT');
  for (const id of ids) {
    expect(await settled(queue.url, id)).toMatchObject({
      state: 'succeeded',
      attempts: 1,
      attempt_errors: [],
    });
  }
});
