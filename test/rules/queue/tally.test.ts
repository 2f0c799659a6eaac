import { expect, it } from 'vitest';
import { Tally } from '../../../src/queue/state/tally.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

it('counts how jobs of a config ended, and those that needed more than one attempt', () => {
  const tally = new Tally();
  tally.ended('cfg', 'succeeded', 0);
  tally.ended('cfg', 'succeeded', 1);
  tally.ended('cfg', 'failed', 1);
  tally.ended('cfg', 'failed', 3);
  tally.ended('cfg', 'expired', 0);
  tally.ended('cfg', 'cancelled', 0);
  expect(tally.of('cfg')).toEqual({ completed: 2, failed: 3, retried: 2 });
  expect(tally.of('other')).toEqual({ completed: 0, failed: 0, retried: 0 });
});

it('forgets the config that has been silent longest, of a thousand', () => {
  const tally = new Tally();
  for (let config = 0; config <= 1000; config++) tally.ended(`${config}`, 'succeeded', 0);
  expect([tally.of('0').completed, tally.of('1').completed]).toEqual([0, 1]);
});

it('the status of a config tells how its jobs stand', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  queue.submit({}, {}, {}, { config_id: 'other' });
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
  const counts = { in_queue: 1, in_progress: 1, completed: 1, failed: 0, retried: 0 };
  expect(queue.queue.status('cfg').config).toEqual(counts);
  expect(queue.queue.status()).not.toHaveProperty('config');
});
