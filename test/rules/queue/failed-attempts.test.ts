import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

it('attempts count against a worker where it or its engine failed, also if they are repeated elsewhere', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w', { capacity: 4 });
  const fail = (code: string, retryable: boolean) => {
    queue.request();
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_error', job_id, fence_token, error: code, code, retryable });
  };
  fail('engine_died', true);
  fail('engine_error', true);
  fail('engine_refused', false);
  fail('engine_overloaded', true);
  expect(queue.queue.takeFailed()).toEqual({ w: 2 });
  expect(queue.queue.takeFailed()).toEqual({});
});

it('an attempt whose worker was silent for too long counts against it too', () => {
  const queue = new QueueHarness();
  queue.worker('w');
  queue.job();
  queue.advance(3600);
  expect(queue.queue.takeFailed()).toEqual({ w: 1 });
});
