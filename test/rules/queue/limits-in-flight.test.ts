import { describe, expect, it } from 'vitest';
import { come, limited, settle, standing, stored, waits } from '../../support/limited-requests.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('tokens that come', () => {
  it('count before their stream ends, beyond what it had reserved too', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { tokens_per_minute: 100 };
    queue.request(limited(limits));
    const { fence_token } = worker.lastJob();
    expect(standing(queue).tokens_per_minute.used).toBe(10);
    come(queue, worker, [fence_token, 8]);
    expect(standing(queue).tokens_per_minute.used).toBe(10);
    come(queue, worker, [fence_token, 95]);
    expect(standing(queue).tokens_per_minute.used).toBe(95);
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'refused', reason: 'over_limit' }]);
    settle(queue, worker, 120);
    expect(standing(queue).tokens_per_minute.used).toBe(120);
  });

  it('count in the minute that they came in, and not all at the end', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    queue.request(limited({ tokens_per_minute: 100 }));
    const { fence_token } = worker.lastJob();
    come(queue, worker, [fence_token, 90]);
    queue.advance(70);
    come(queue, worker, [fence_token, 95]);
    expect(standing(queue).tokens_per_minute.used).toBe(5);
    settle(queue, worker, 95);
    expect(standing(queue).tokens_per_minute.used).toBe(5);
  });

  it('of an attempt that came to nothing do not count, nor twice over a restart', () => {
    const queue = new QueueHarness();
    const limits = { tokens_per_minute: 100 };
    const worker = queue.worker('w', { capacity: 10 });
    const id = queue.job(stored(limits));
    const { fence_token } = worker.lastJob();
    come(queue, worker, [fence_token, 60]);
    queue.advance(2);
    queue.restart();
    const again = queue.worker('w', { capacity: 10, jobs: [{ job_id: id, fence_token }] });
    come(queue, again, [fence_token, 70]);
    expect(standing(queue).tokens_per_minute.used).toBe(70);
    queue.say(again, { type: 'job_release', job_id: id, fence_token, reason: 'draining' });
    expect(standing(queue).tokens_per_minute.used).toBe(10);
  });

  it('of a failed attempt are taken back from when they came, and from nothing that came later', () => {
    const queue = new QueueHarness();
    const { worker, fail } = runsBeside(queue, { tokens: 40, seconds: 20 });
    settle(queue, worker, 50);
    fail();
    expect(standing(queue).tokens_per_minute.used).toBe(50);
    queue.advance(45);
    expect(standing(queue).tokens_per_minute.used).toBe(50);
    queue.advance(16);
    expect(standing(queue).tokens_per_minute.used).toBe(0);
  });

  it('of a failed attempt are not taken back once they count no more', () => {
    const queue = new QueueHarness();
    const { worker, fail } = runsBeside(queue, { tokens: 90, seconds: 70 });
    settle(queue, worker, 50);
    fail();
    expect(standing(queue).tokens_per_minute.used).toBe(50);
  });

  it('and count no more are not taken back in a restart either', () => {
    const queue = new QueueHarness();
    const { worker } = runsBeside(queue, { tokens: 90, seconds: 70 });
    settle(queue, worker, 50);
    queue.advance(2);
    queue.restart();
    expect(standing(queue).tokens_per_minute.used).toBe(50);
  });
});

/** A request of which tokens have come, and so much later one beside it, which the worker was given last. */
function runsBeside(queue: QueueHarness, first: { tokens: number; seconds: number }) {
  const limits = { tokens_per_minute: 100 };
  const worker = queue.worker('w', { capacity: 10 });
  queue.request(limited(limits));
  const { job_id, fence_token, account } = worker.lastJob();
  come(queue, worker, [fence_token, first.tokens]);
  queue.advance(first.seconds);
  queue.request(limited(limits));
  const error = { error: 'the engine died', code: 'engine_died', retryable: false };
  const fail = () => queue.say(worker, { type: 'job_error', job_id, fence_token, account, ...error });
  return { worker, fail };
}

describe('what one limit holds back', () => {
  const limits = { tokens_per_minute: 1000, models: { 'slow-*': { running: 1 } } };

  it('lets requests pass that it is not about', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10, instance: { models: ['tiny', 'slow-1'] } });
    queue.request(waits(limits, { model: 'slow-1' }));
    expect(queue.request(waits(limits, { model: 'slow-1' }))).toEqual([]);
    expect(queue.request(waits(limits))).toMatchObject([{ kind: 'stream' }]);
    expect(standing(queue).held).toBe(1);
  });

  it('lets what is of a higher priority go first', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const one = { requests_per_minute: 1 };
    queue.request(waits(one));
    queue.request(waits(one, { job_id: 'flex', priority: -5 }));
    queue.request(waits(one, { job_id: 'urgent', priority: 5 }));
    queue.advance(62);
    expect(worker.lastJob().job_id).toBe('urgent');
    queue.advance(62);
    expect(worker.lastJob().job_id).toBe('flex');
  });

  it('keeps no stored job behind one of a lower priority that waits for a slot', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request();
    const many = { requests_per_minute: 100 };
    queue.job(stored(many, { id: 'line', priority: -10 }));
    queue.job(stored(many, { id: 'urgent', priority: 5 }));
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
    expect(worker.lastJob().job_id).toBe('urgent');
  });
});
