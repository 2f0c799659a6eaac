import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { chatJob, readyWorker, settled, startQueue, submit, tearDown } from '../support/road.ts';

afterAll(tearDown);

it('a queue that was stopped for several leases charges no job for it', async () => {
  const queue = await startQueue({ env: { QUEUE_LEASE_SECONDS: '4', QUEUE_PING_SECONDS: '2' } });
  await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 100' });
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
