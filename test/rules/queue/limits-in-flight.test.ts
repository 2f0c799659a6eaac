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
});

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
