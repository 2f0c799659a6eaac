import { describe, expect, it } from 'vitest';
import type { Limits, LimitView } from '../../../src/protocol/index.ts';
import { come, limited, settle, standing, stored } from '../../support/limited-requests.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

/** The harness begins on 1 January 2026, at midnight in UTC. */
const HOUR = 3600;
const DAY = 24 * HOUR;

function use(queue: QueueHarness, worker: FakeConnection, limits: Limits, tokens: number): void {
  queue.request(limited(limits));
  settle(queue, worker, tokens);
  queue.advance(2);
}

describe('a budget', () => {
  it('of a day is spent until midnight, and says so', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { tokens_per_day: 100 };
    use(queue, worker, limits, 60);
    use(queue, worker, limits, 45);
    expect(standing(queue).tokens_per_day).toEqual({ used: 105, limit: 100 });
    const [refused] = queue.request(limited(limits));
    expect(refused).toMatchObject({ kind: 'refused', reason: 'over_limit' });
    expect(refused).toMatchObject({
      message: expect.stringMatching(
        /^the token "a" has reached its limit of 100 tokens a day: it resets at 2026-01-02T00:00:00.000Z$/,
      ),
      retry_after_seconds: DAY - 4,
    });
    queue.advance(DAY);
    use(queue, worker, limits, 5);
    expect(standing(queue).tokens_per_day.used).toBe(5);
  });

  it('of a month resets on the first, and goes before that of the day', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { tokens_per_day: 100, tokens_per_month: 150 };
    use(queue, worker, limits, 100);
    queue.advance(DAY);
    use(queue, worker, limits, 50);
    expect(queue.request(limited(limits))).toMatchObject([
      { message: expect.stringMatching(/150 tokens a month: it resets at 2026-02-01T00:00:00.000Z/) },
    ]);
  });

  it('counts what was used before there was one, and by model', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10, instance: { models: ['tiny', 'other'] } });
    use(queue, worker, {}, 80);
    const limits = { models: { 'ti*': { tokens_per_month: 80 } } };
    expect(queue.request(limited(limits))).toMatchObject([{ reason: 'over_limit' }]);
    expect(queue.request(limited(limits, { model: 'other' }))).toMatchObject([{ kind: 'stream' }]);
  });

  it('holds back stored jobs until it resets', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { tokens_per_day: 20 };
    use(queue, worker, limits, 20);
    const id = queue.job(stored(limits));
    queue.advance(DAY - 10);
    expect(worker.lastJob().job_id).not.toBe(id);
    queue.advance(10);
    expect(worker.lastJob().job_id).toBe(id);
  });

  it('is exact over restarts: nothing is forgotten, and nothing counts twice', () => {
    const queue = new QueueHarness();
    const limits = { tokens_per_day: 1000, tokens_per_month: 1000 };
    for (let n = 1; n <= 5; n++) {
      const worker = queue.worker('w', { capacity: 10, instance: { boot_id: `boot-${n}` } });
      use(queue, worker, limits, 30);
      // One that runs is told of again, and settled after the restart.
      queue.request(limited(limits));
      const { job_id, fence_token, account } = worker.lastJob();
      come(queue, worker, [fence_token, 7]);
      expect(standing(queue).tokens_per_day.used).toBe(30 * n + 8 * (n - 1) + 10);
      queue.restart();
      const jobs = [{ job_id, fence_token, account }];
      const again = queue.worker('w', { capacity: 10, jobs, instance: { boot_id: `boot-${n}` } });
      const usage = { prompt_tokens: 0, completion_tokens: 8, model: 'tiny' };
      for (let times = 0; times < 2; times++)
        queue.say(again, { type: 'job_result', job_id, fence_token, account, result: {}, usage });
      queue.advance(2);
      expect(standing(queue).tokens_per_month.used).toBe(38 * n);
      queue.restart();
    }
  });
});

describe('a budget of a tenant', () => {
  const limits = { tenant: { tokens_per_day: 100 } };
  const own = { tenant: 'team' };
  const other = { tenant: 'team', token_name: 'b' };
  const spend = (queue: QueueHarness, worker: FakeConnection, more: object, tokens: number) => {
    queue.request(limited(null, more));
    settle(queue, worker, tokens);
    queue.advance(2);
  };

  it('counts all of its tokens, whether they have limits or not, before it was set and after', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    spend(queue, worker, other, 40);
    queue.request(limited(limits, own));
    settle(queue, worker, 10);
    queue.advance(2);
    spend(queue, worker, other, 45);
    expect(ofTenant(queue)).toMatchObject({ token_name: 'a', tokens_per_day: { used: 95, limit: 100 } });
    spend(queue, worker, { ...other, token_name: 'c' }, 20);
    const [refused] = queue.request(limited(limits, own));
    expect(refused).toMatchObject({
      kind: 'refused',
      message:
        'the tenant "team" has reached its limit of 100 tokens a day: it resets at 2026-01-02T00:00:00.000Z',
    });
    expect(queue.request(limited(null, other))).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request(limited(limits, { tenant: 'else', token_name: 'd' }))).toMatchObject([
      { kind: 'stream' },
    ]);
    queue.advance(DAY);
    expect(queue.request(limited(limits, own))).toMatchObject([{ kind: 'stream' }]);
  });

  it('counts what runs, of every token with limits, and opens when that ends', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 20 });
    const full = { tenant: { tokens_per_day: 20 } };
    queue.request(limited(full, own));
    queue.request(limited(full, other));
    expect(queue.request(limited(full, own))).toMatchObject([
      { reason: 'over_limit', retry_after_seconds: 1 },
    ]);
    settle(queue, worker, 3);
    expect(queue.request(limited(full, own))).toMatchObject([{ kind: 'stream' }]);
  });

  it('holds stored jobs back until it resets, and is exact over restarts', () => {
    const queue = new QueueHarness();
    let worker = queue.worker('w', { capacity: 10, instance: { boot_id: 'boot' } });
    spend(queue, worker, other, 100);
    const id = queue.job(stored(limits, own));
    for (let times = 0; times < 2; times++) {
      queue.restart();
      worker = queue.worker('w', { capacity: 10, instance: { boot_id: 'boot' } });
      expect(ofTenant(queue).tokens_per_day).toEqual({ used: 100, limit: 100 });
      expect(worker.frames('job')).toEqual([]);
    }
    queue.advance(DAY);
    expect(worker.lastJob().job_id).toBe(id);
  });
});

function ofTenant(queue: QueueHarness): LimitView {
  return queue.queue.read('limits').find(({ tenant }) => tenant !== null)!;
}
