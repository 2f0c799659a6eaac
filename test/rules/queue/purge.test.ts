import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

it('cancels what waits for a pool, and nothing that runs or waits for another', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const running = queue.job();
  const waiting = [queue.job(), queue.job()];
  const other = queue.job({ config_id: 'other' });
  expect(queue.queue.do('purge', 'cfg', null)).toBe(2);
  expect(queue.queue.do('purge', 'cfg', null)).toBe(0);
  expect(waiting.map((id) => queue.state(id))).toEqual(['cancelled', 'cancelled']);
  expect([queue.state(running), queue.state(other)]).toEqual(['leased', 'pending']);
  expect(worker.frames('job_revoked')).toEqual([]);
});

it('cancels also what waits to be tried again', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job();
  const { fence_token } = worker.lastJob();
  queue.say(worker, {
    type: 'job_error',
    job_id: id,
    fence_token,
    error: 'x',
    code: 'engine_error',
    retryable: true,
  });
  expect(queue.state(id)).toBe('pending');
  expect(queue.queue.do('purge', 'cfg', null)).toBe(1);
  queue.advance(60);
  expect(queue.state(id)).toBe('cancelled');
});

it('cancels a tenant’s own jobs only', () => {
  const queue = new QueueHarness();
  const [mine, theirs] = [queue.job({ tenant: 'a' }), queue.job({ tenant: 'b' })];
  expect(queue.queue.do('purge', 'cfg', 'a')).toBe(1);
  expect([queue.state(mine), queue.state(theirs)]).toEqual(['cancelled', 'pending']);
});

it('takes a few hundred at a time, so that others get their turn', () => {
  const queue = new QueueHarness();
  queue.submit(...Array.from({ length: 600 }, () => ({})));
  expect([
    queue.queue.do('purge', 'cfg', null),
    queue.queue.do('purge', 'cfg', null),
    queue.queue.do('purge', 'cfg', null),
  ]).toEqual([500, 100, 0]);
});
