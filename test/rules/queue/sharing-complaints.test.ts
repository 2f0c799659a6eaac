import { describe, expect, it } from 'vitest';
import { come, limited, settle, standing, stored } from '../../support/limited-requests.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** What users of other gateways complain of, where no test of a rule says it already. */

describe('a key that has reached its limit', () => {
  it('is not shut for longer than its minute, however often it asks meanwhile', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 100 });
    const limits = { requests_per_minute: 2 };
    for (let n = 0; n < 2; n++) queue.request(limited(limits));
    for (let second = 0; second < 60; second++) {
      expect(queue.request(limited(limits))).toMatchObject([{ reason: 'over_limit' }]);
      queue.advance(1);
    }
    queue.advance(1);
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
  });

  it('is open again as soon as what it reserved turns out not to be used', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 100 });
    const limits = { tokens_per_minute: 1000 };
    queue.request(limited(limits, { cost: { tokens: 1000 } }));
    expect(queue.request(limited(limits))).toMatchObject([{ reason: 'over_limit' }]);
    settle(queue, worker, 5);
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
  });

  it('has used what came of a stream that its caller hung up on, once the worker tells', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 100 });
    const limits = { tokens_per_minute: 100 };
    queue.request(limited(limits, { job_id: 'r1' }));
    const { job_id, fence_token, account } = worker.lastJob();
    come(queue, worker, [fence_token, 90]);
    const usage = { prompt_tokens: 5, completion_tokens: 95, model: 'tiny' };
    queue.say(worker, {
      type: 'job_error',
      job_id,
      fence_token,
      account,
      error: 'cancelled',
      code: 'cancelled',
      usage,
    });
    expect(standing(queue)).toMatchObject({ running: { used: 0 }, tokens_per_minute: { used: 100 } });
    expect(queue.request(limited(limits))).toMatchObject([{ reason: 'over_limit' }]);
  });
});

describe('one heavy user', () => {
  it('is delayed and not refused, and delays another by no more than what runs', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 1 });
    const flood = Array.from({ length: 100 }, () => queue.request({ tenant: 'heavy' }));
    const other = queue.request({ tenant: 'light' });
    settle(queue, worker);
    expect(other).toMatchObject([{ kind: 'stream' }]);
    settle(queue, worker);
    const told = flood.filter((answers) => answers.length > 0);
    expect(told).toMatchObject([[{ kind: 'stream' }], [{ kind: 'stream' }]]);
  });

  it('does not shut out its own callers by a batch that waits', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 1 });
    queue.request({ tenant: 'other' });
    const limits = { running: 1, requests_per_minute: 1, tokens_per_minute: 100 };
    for (let n = 0; n < 50; n++) queue.job(stored(limits, { priority: -10, cost: { tokens: 100 } }));
    // It waits for a slot as others do, and not for its limits.
    expect(queue.request(limited(limits))).toEqual([]);
  });
});
