import { expect, it } from 'vitest';
import { stored } from '../../support/limited-requests.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** What a stored job waits for by itself, whatever its pool has. */

const own = (queue: QueueHarness, id: string) => queue.queue.read('waitingJob', id, null)?.own ?? null;

it('is its pool alone while nothing of its own keeps it', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w', { capacity: 1 });
  const first = queue.job();
  const second = queue.job({ priority: -10, model: 'tiny' });
  expect(worker.lastJob().job_id).toBe(first);
  expect(queue.queue.read('waitingJob', first, null)).toBeNull();
  expect(queue.queue.read('waitingJob', second, null)).toEqual({
    config_id: 'cfg',
    model: 'tiny',
    is_batch: true,
    own: null,
  });
});

it('is nothing to another tenant', () => {
  const queue = new QueueHarness();
  queue.worker('w', { capacity: 0 });
  const id = queue.job({ tenant: 'a' });
  expect(queue.queue.read('waitingJob', id, 'a')).not.toBeNull();
  expect(queue.queue.read('waitingJob', id, 'b')).toBeNull();
});

it('is the time of its next attempt, with the error of the last one', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job();
  const { job_id, fence_token } = worker.lastJob();
  const error = { code: 'engine_error', retryable: true, error: 'out of memory' };
  queue.say(worker, { type: 'job_error', job_id, fence_token, ...error });
  const waiting = own(queue, id);
  expect(waiting).toMatchObject({
    code: 'retry',
    for: 'its attempt 1 of 3 failed, and the next one comes later: out of memory',
    advice: null,
  });
  expect(Date.parse(waiting!.until!)).toBeGreaterThan(queue.nowMs);
});

it('is the limit of its token, until that opens, with what can be done', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w', { capacity: 4 });
  const limits = { requests_per_minute: 1 };
  queue.job(stored(limits));
  const second = queue.job(stored(limits));
  expect(worker.frames('job')).toHaveLength(1);
  queue.advance(2);
  expect(own(queue, second)).toMatchObject({
    code: 'limit',
    for: 'the token "a" has reached its limit of 1 requests a minute',
    until: expect.any(String),
    advice: 'It goes on by itself. An operator can raise the limit: worker-vllm token set a.',
  });
});
