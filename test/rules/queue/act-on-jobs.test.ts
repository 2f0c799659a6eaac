import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

it('cancels those of the jobs that are not over, those that run too', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const running = queue.job();
  const waiting = queue.job();
  expect(queue.queue.do('actOnJobs', 'cancel', [running, waiting, 'unknown'], null)).toBe(2);
  expect([queue.state(running), queue.state(waiting)]).toEqual(['cancelled', 'cancelled']);
  expect(worker.frames('job_revoked')).toHaveLength(1);
  expect(queue.queue.do('actOnJobs', 'cancel', [running, waiting], null)).toBe(0);
});

it('tries again those of the jobs that failed', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const failed = queue.job();
  const { fence_token } = worker.lastJob();
  const error = { error: 'no such thing', code: 'engine_refused', retryable: false };
  queue.say(worker, { type: 'job_error', job_id: failed, fence_token, ...error });
  const running = queue.job();
  expect(queue.queue.do('actOnJobs', 'retry', [failed, running], null)).toBe(1);
  expect(queue.state(failed)).toBe('pending');
});

it('leaves the jobs of others alone', () => {
  const queue = new QueueHarness();
  const id = queue.job();
  expect(queue.queue.do('actOnJobs', 'cancel', [id], 'somebody')).toBe(0);
  expect(queue.state(id)).toBe('pending');
});
