import { describe, expect, it } from 'vitest';
import type { Limits } from '../../../src/protocol/index.ts';
import { limited, settle, standing, stored } from '../../support/limited-requests.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';
import { failed, told, usage } from '../../support/usage-bench.ts';

/** 36 dollars an hour over 4 slots: a slot costs 2.5 thousandths of a dollar a second. */
const PRICED = { capacity: 4, instance: { price_per_hour: 36 } };
const SECOND = 2_500_000;
const DAY = 24 * 3600;

const costs = (queue: QueueHarness) =>
  usage(queue).map(({ slot_ms, unpriced_slot_ms, nanodollars }) => ({
    slot_ms,
    unpriced_slot_ms,
    nanodollars,
  }));

function ran(seconds: number) {
  return { slot_ms: seconds * 1000, unpriced_slot_ms: 0, nanodollars: seconds * SECOND };
}

describe('the time of a slot', () => {
  it('costs its part of the machine, from when a job is given out until its end', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', PRICED);
    queue.request({ tenant: 'a', token_name: 'a' });
    queue.advance(10);
    settle(queue, worker);
    queue.advance(5);
    expect(costs(queue)).toEqual([ran(10)]);
    queue.job();
    queue.advance(3);
    for (let times = 0; times < 2; times++) queue.say(worker, told(worker.lastJob()));
    expect(costs(queue)).toEqual([ran(13)]);
  });

  it('is unknown, and costs not zero, where the worker tells no price and none is known', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    queue.advance(3);
    queue.say(worker, told(worker.lastJob()));
    expect(costs(queue)).toEqual([{ slot_ms: 3000, unpriced_slot_ms: 3000, nanodollars: 0 }]);
  });

  it('counts whatever becomes of the attempt: it failed, was released, cancelled, or its caller hung up', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', PRICED);
    const id = queue.job();
    queue.advance(2);
    queue.say(worker, failed(worker.lastJob(), { retryable: true }));
    queue.advance(5);
    const { job_id, fence_token } = worker.lastJob();
    const before = costs(queue)[0]!.slot_ms;
    expect(before).toBe(2000);
    const givenAt = queue.nowMs;
    queue.advance(4);
    queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'engine_restarting' });
    const released = costs(queue)[0]!.slot_ms;
    expect(released).toBeGreaterThanOrEqual(before + queue.nowMs - givenAt);
    queue.advance(2);
    queue.queue.do('cancel', id, 'cancelled', null);
    const cancelled = costs(queue)[0]!.slot_ms;
    expect(cancelled).toBeGreaterThan(released);
    queue.request({ job_id: 'r' });
    queue.advance(6);
    queue.queue.do('cancel', 'r', 'caller_gone', null);
    queue.advance(6);
    queue.say(worker, failed(worker.lastJob(), { code: 'cancelled', retryable: false }));
    queue.advance(2);
    expect(costs(queue)[0]!.slot_ms).toBe(cancelled + 6000);
  });

  it('of a worker that is lost counts until it is given up, and once where it comes back', () => {
    const queue = new QueueHarness({ reconnect_grace_seconds: 10 });
    const worker = queue.worker('w', PRICED);
    queue.job();
    const { job_id, fence_token } = worker.lastJob();
    queue.advance(5);
    queue.drop(worker);
    queue.advance(20);
    // The alarm comes within a second.
    const lost = costs(queue)[0]!.slot_ms / 1000;
    expect([15, 16]).toContain(lost);
    expect(costs(queue)).toEqual([ran(lost)]);
    const again = queue.worker('w', { ...PRICED, jobs: [{ job_id, fence_token }] });
    queue.advance(7);
    queue.say(again, told({ job_id, fence_token }));
    expect(costs(queue)).toEqual([ran(lost + 7)]);
  });

  it('is exact over restarts, of requests and of stored jobs, of workers that come back and of those that do not', () => {
    const queue = new QueueHarness({ reconnect_grace_seconds: 10 });
    const worker = queue.worker('w', PRICED);
    queue.request({ tenant: 'a', token_name: 'a' });
    const request = worker.lastJob();
    queue.job({ tenant: 'a', token_name: 'a' });
    const job = worker.lastJob();
    queue.advance(5);
    queue.restart();
    const jobs = [request, job].map(({ job_id, fence_token, account }) => ({ job_id, fence_token, account }));
    const again = queue.worker('w', { ...PRICED, jobs });
    queue.advance(5);
    for (let times = 0; times < 2; times++)
      for (const { job_id, fence_token, account } of [request, job])
        queue.say(again, { ...told({ job_id, fence_token } as never), account });
    queue.advance(2);
    expect(costs(queue)).toEqual([ran(20)]);
    queue.job({ tenant: 'a', token_name: 'a' });
    queue.advance(2);
    queue.restart();
    queue.advance(20);
    const lost = costs(queue)[0]!.slot_ms / 1000;
    expect([32, 33]).toContain(lost);
    queue.restart();
    expect(costs(queue)).toEqual([ran(lost)]);
  });
});

describe('a budget in money', () => {
  const spend = (
    queue: QueueHarness,
    worker: FakeConnection,
    limits: Limits | null,
    seconds: number,
    more = {},
  ) => {
    queue.request(limited(limits, more));
    queue.advance(seconds);
    settle(queue, worker);
    queue.advance(2);
  };

  it('is refused once it is spent, and says when it resets; what runs finishes', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', PRICED);
    const limits = { dollars_per_day: 0.05 };
    spend(queue, worker, limits, 12);
    expect(standing(queue).dollars_per_day).toEqual({ used: 0.03, limit: 0.05 });
    queue.request(limited(limits));
    const running = worker.lastJob();
    spend(queue, worker, limits, 8);
    const [refused] = queue.request(limited(limits));
    expect(refused).toMatchObject({
      reason: 'over_limit',
      message:
        'the token "a" has reached its limit of 0.05 US dollars a day: it resets at 2026-01-02T00:00:00.000Z',
    });
    const { job_id, fence_token, account } = running;
    queue.say(worker, { ...told({ job_id, fence_token }), account });
    queue.advance(2);
    expect(standing(queue).dollars_per_day.used).toBe(0.075);
    expect(worker.frames('job_revoked')).toEqual([]);
    queue.advance(DAY);
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
  });

  it('may be of its tenant and of a month, holds stored jobs back, and is the same after a restart', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', PRICED);
    const own = { tenant: 'team' };
    spend(queue, worker, null, 40, { ...own, token_name: 'b' });
    const limits = { tenant: { dollars_per_month: 0.1 } };
    const id = queue.job(stored(limits, own));
    queue.restart();
    const again = queue.worker('w', PRICED);
    expect(queue.request(limited(limits, own))).toMatchObject([
      { message: expect.stringMatching(/the tenant "team" .* 0.1 US dollars a month: .* 2026-02-01T/) },
    ]);
    queue.advance(31 * DAY);
    expect(again.lastJob().job_id).toBe(id);
  });

  it('counts nothing of workers whose price is not known', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 4 });
    const limits = { dollars_per_day: 0.01 };
    spend(queue, worker, limits, 1000);
    expect(standing(queue).dollars_per_day).toEqual({ used: 0, limit: 0.01 });
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
  });
});
