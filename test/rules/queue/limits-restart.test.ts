import { describe, expect, it } from 'vitest';
import { limited, settle, standing, stored, waits } from '../../support/limited-requests.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

/** A queue that starts again knows of requests only what their workers tell it when they are back. */

const limits = { running: 1 };

/** As the worker lists it, or nothing. */
function back(queue: QueueHarness, name: string, worker?: FakeConnection): FakeConnection {
  if (!worker) return queue.worker(name, { capacity: 10 });
  const { job_id, fence_token, account } = worker.lastJob();
  return queue.worker(name, { capacity: 10, jobs: [{ job_id, fence_token, account }] });
}

describe('after a restart of the queue, with a worker that is not back yet', () => {
  it('no request is admitted before the worker has told what it runs', () => {
    const queue = new QueueHarness();
    const [one, other] = [queue.worker('w', { capacity: 10 }), queue.worker('other', { capacity: 10 })];
    queue.request(limited(limits));
    const first = [one, other].find(({ sent }) => sent.some(({ type }) => type === 'job'))!;
    const [name, second] = first === one ? ['w', 'other'] : ['other', 'w'];
    queue.restart();
    back(queue, second);
    const refused = queue.request(limited(limits));
    const waiting = queue.request(waits(limits));
    expect([refused, waiting]).toEqual([[], []]);
    const again = back(queue, name, first);
    expect(standing(queue).running.used).toBe(1);
    // Neither is admitted; who did not say that it waits is told now.
    expect(refused).toMatchObject([{ kind: 'refused', reason: 'over_limit', retry_after_seconds: 1 }]);
    expect(waiting).toEqual([]);
    const { job_id, fence_token, account } = first.lastJob();
    queue.say(again, { type: 'job_result', job_id, fence_token, account, result: {} });
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
  });

  it('what has room goes on as if nothing had been, once all are back', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    queue.request(limited({ running: 5 }));
    queue.restart();
    const asked = queue.request(limited({ running: 5 }, { wait_for_worker_ms: 20_000 }));
    const id = queue.job(stored({ running: 5 }));
    const free = queue.request(limited(null, { token_name: 'free', wait_for_worker_ms: 20_000 }));
    expect(asked).toEqual([]);
    back(queue, 'w');
    expect([asked, free]).toMatchObject([[{ kind: 'stream' }], [{ kind: 'stream' }]]);
    expect(queue.state(id)).toBe('leased');
  });

  it('is waited for no longer than its grace', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    queue.worker('gone', { capacity: 10 });
    queue.request(limited(limits));
    queue.restart();
    back(queue, 'w');
    const asked = queue.request(limited(limits));
    const id = queue.job(stored(limits, { priority: -1 }));
    queue.advance(9);
    expect(asked).toEqual([]);
    queue.advance(2);
    expect(asked).toMatchObject([{ kind: 'stream' }]);
    expect(queue.state(id)).toBe('pending');
  });

  it('is waited for no longer than its grace where the clock was set back', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    queue.drop(queue.worker('gone', { capacity: 10 }));
    queue.advance(1);
    queue.nowMs -= 3_600_000;
    queue.restart();
    back(queue, 'w');
    const asked = queue.request(limited(limits));
    queue.advance(9);
    expect(asked).toEqual([]);
    queue.advance(2);
    expect(asked).toMatchObject([{ kind: 'stream' }]);
  });

  it('nobody waits who has no limits, nor for one that left long before', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('left'));
    queue.request(limited(limits));
    queue.advance(30);
    queue.worker('w', { capacity: 10 });
    queue.restart();
    back(queue, 'w');
    expect(queue.request(limited(null, { token_name: 'free' }))).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
  });
});

describe('a request of before a restart', () => {
  it('holds what it does while its worker is away, until that is gone', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    queue.request(limited(limits));
    queue.restart();
    queue.drop(back(queue, 'w', worker));
    queue.worker('other', { capacity: 10 });
    expect(queue.request(limited(limits))).toMatchObject([{ reason: 'over_limit' }]);
    const waiting = queue.request(waits(limits));
    queue.advance(5);
    expect(waiting).toEqual([]);
    queue.advance(6);
    expect(standing(queue).running.used).toBe(1);
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
  });

  it('holds it over a second connection of its worker, unless that has lost it', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    queue.request(limited(limits));
    queue.advance(2);
    queue.restart();
    queue.drop(back(queue, 'w', worker));
    back(queue, 'w', worker);
    queue.advance(20);
    expect(standing(queue).running.used).toBe(1);
    back(queue, 'w');
    expect(standing(queue).running.used).toBe(0);
  });

  it('is not kept from being asked for again by itself', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    queue.request(limited(limits, { job_id: 'r1' }));
    queue.restart();
    const again = back(queue, 'w', worker);
    expect(queue.request(limited(limits, { job_id: 'r1' }))).toMatchObject([{ kind: 'stream' }]);
    expect(standing(queue).running.used).toBe(1);
    settle(queue, again);
    expect(standing(queue).running.used).toBe(0);
  });
});

describe('a request that is asked for again after a restart', () => {
  const minute = { requests_per_minute: 2 };
  const asked = { job_id: 'r1', wait_for_worker_ms: 60_000 };

  it('counts once where it waited for a slot, and is not kept by what else was counted', () => {
    for (const secondsBefore of [0, 2]) {
      const queue = new QueueHarness();
      queue.worker('w', { capacity: 1 });
      queue.request(limited(minute, { job_id: 'runs' }));
      const worker = queue.connections.values().next().value!;
      expect(queue.request(limited(minute, asked))).toEqual([]);
      queue.advance(secondsBefore);
      queue.restart();
      const again = queue.request(limited(minute, asked));
      const back = queue.worker('w', { capacity: 1, jobs: [worker.lastJob()] });
      expect(standing(queue).requests_per_minute.used).toBe(2);
      queue.say(back, { ...worker.lastJob(), type: 'job_result', result: {} });
      expect(again).toMatchObject([{ kind: 'stream' }]);
      expect(queue.request(limited(minute))).toMatchObject([{ reason: 'over_limit' }]);
      queue.advance(62);
      expect(standing(queue).requests_per_minute.used).toBe(0);
    }
  });

  it('counts once where its worker is gone, over two restarts too', () => {
    const queue = new QueueHarness();
    queue.worker('gone');
    queue.request(limited(minute, asked));
    queue.advance(2);
    for (let restart = 0; restart < 2; restart++) {
      queue.restart();
      queue.request(limited(null, { token_name: 'other', job_id: 'other', wait_for_worker_ms: 60_000 }));
      queue.request(limited(minute, asked));
      queue.advance(12);
      expect(standing(queue).requests_per_minute.used).toBe(1);
    }
    queue.request(limited(minute, { job_id: 'r2', wait_for_worker_ms: 60_000 }));
    queue.worker('w', { capacity: 10 });
    expect(standing(queue)).toMatchObject({ requests_per_minute: { used: 2 }, running: { used: 2 } });
  });

  it('waits where others run in its place by then, whether or not its caller said so', () => {
    for (const more of [{}, { wait_for_worker_ms: 60_000 }]) {
      const queue = new QueueHarness();
      const most = { running: 1, requests_per_minute: 2 };
      queue.worker('w', { capacity: 10 });
      queue.request(limited(most, { job_id: 'r1', ...more }));
      queue.advance(2);
      queue.restart();
      const worker = queue.worker('w', { capacity: 10 });
      expect(queue.request(limited(most, { job_id: 'r2' }))).toMatchObject([{ kind: 'stream' }]);
      const again = queue.request(limited(most, { job_id: 'r1', ...more }));
      expect(again).toEqual([]);
      expect(standing(queue).running.used).toBe(1);
      settle(queue, worker);
      expect(again).toMatchObject([{ kind: 'stream' }]);
      expect(standing(queue)).toMatchObject({ running: { used: 1 }, requests_per_minute: { used: 2 } });
    }
  });
});
