import { describe, expect, it } from 'vitest';
import type { PoolCounts } from '../../../src/queue/projections/pool-counts.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

function countsOf(queue: QueueHarness, configId = 'cfg'): PoolCounts {
  const pool = queue.queue.read('metrics').pools.find(({ config_id }) => config_id === configId);
  if (!pool) throw new Error(`nothing is counted of ${configId}`);
  return pool.counts;
}

function succeed(queue: QueueHarness, worker: FakeConnection, more: object = {}): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: {}, ...more });
}

function fail(queue: QueueHarness, worker: FakeConnection, retryable: boolean): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type: 'job_error', job_id, fence_token, error: 'broken', retryable });
}

/** How many were measured. */
const measured = ({ counts }: { counts: number[] }) => counts.reduce((sum, n) => sum + n, 0);

describe('a stored job', () => {
  it('is counted when it is submitted, dispatched and settled, with its times and tokens', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const before = queue.nowMs;
    queue.job();
    queue.nowMs += 3000;
    const usage = { prompt_tokens: 7, completion_tokens: 5 };
    succeed(queue, worker, { usage, timing: { started_ms: 5, first_token_ms: 400 } });
    expect(queue.nowMs - before).toBe(3000);
    const counts = countsOf(queue);
    expect(counts.submitted).toEqual({ waiting: 0, stored: 1 });
    expect(counts.settled.stored.succeeded).toBe(1);
    expect([counts.dispatches, counts.attempts.succeeded]).toEqual([1, 1]);
    expect([counts.tokens.input, counts.tokens.output]).toEqual([7, 5]);
    expect([counts.duration.sum, counts.run.sum, counts.first_token.sum]).toEqual([3, 3, 0.4]);
    expect(counts.queue_wait).toMatchObject({ sum: 0 });
  });

  it('that needs several attempts is one job, with one wait', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    fail(queue, worker, true);
    queue.advance(2);
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'overloaded' });
    queue.advance(5);
    succeed(queue, worker);
    const counts = countsOf(queue);
    expect(counts.submitted.stored).toBe(1);
    expect(counts.settled.stored).toMatchObject({ succeeded: 1, failed: 0 });
    expect(counts.attempts).toMatchObject({ succeeded: 1, failed: 1, released: 1 });
    expect(counts.retried).toBe(1);
    expect(counts.releases.overloaded).toBe(1);
    expect([counts.dispatches, measured(counts.queue_wait)]).toEqual([3, 1]);
  });

  it('that is cancelled in its second attempt was retried, and one that is cancelled before it was not', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [before, within] = [queue.job(), queue.job()];
    for (const _ of [before, within]) fail(queue, worker, true);
    queue.queue.do('cancel', before, 'cancelled', null);
    queue.advance(2);
    expect(queue.state(within)).toBe('leased');
    queue.queue.do('cancel', within, 'cancelled', null);
    expect(countsOf(queue)).toMatchObject({ retried: 1, settled: { stored: { cancelled: 2 } } });
  });

  it('of which a settlement came too late counts a refusal', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_result', job_id, fence_token: fence_token - 1, result: {} });
    expect(countsOf(queue).fence_refusals).toBe(1);
  });

  it('that is cancelled, expires or is not admitted is counted as that', () => {
    const queue = new QueueHarness({ max_pending: 2 });
    queue.queue.do('cancel', queue.job(), 'cancelled', null);
    queue.submit({ deadline_seconds: 5 }, {}, {});
    queue.advance(6);
    expect(countsOf(queue).settled.stored).toEqual({
      succeeded: 0,
      failed: 0,
      cancelled: 1,
      expired: 1,
      rejected: 1,
    });
    expect(countsOf(queue).submitted.stored).toBe(4);
  });
});

describe('a request', () => {
  it('that the gateway asks for again is one request, which ends once', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'r' });
    fail(queue, worker, true);
    queue.nowMs += 1000;
    queue.request({ job_id: 'r' });
    queue.nowMs += 1000;
    succeed(queue, worker);
    queue.advance(10);
    const counts = countsOf(queue);
    expect(counts.submitted.waiting).toBe(1);
    expect(counts.settled.waiting).toMatchObject({ succeeded: 1, failed: 0 });
    expect(counts.attempts).toMatchObject({ succeeded: 1, failed: 1 });
    expect(measured(counts.queue_wait)).toBe(1);
    expect(counts.duration.sum).toBe(2);
  });

  it('that the gateway does not ask for again has failed, five seconds later', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request();
    fail(queue, worker, true);
    expect(countsOf(queue).settled.waiting.failed).toBe(0);
    queue.advance(6);
    expect(countsOf(queue).settled.waiting.failed).toBe(1);
  });

  it('that fails for good has failed at once', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request();
    fail(queue, worker, false);
    expect(countsOf(queue).settled.waiting.failed).toBe(1);
  });

  it('that was released and whose caller hung up meanwhile is cancelled', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'r' });
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'draining' });
    queue.queue.do('cancel', 'r', 'caller_gone', null);
    queue.advance(6);
    expect(countsOf(queue).settled.waiting).toMatchObject({ cancelled: 1, rejected: 0 });
  });

  it('that finds no worker is rejected, and one for a model that nobody knows is not counted', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('w'));
    queue.advance(11);
    queue.request();
    queue.request({ model: 'nobody-serves-it' });
    expect(countsOf(queue).settled.waiting.rejected).toBe(1);
    expect(queue.queue.read('metrics').pools.map(({ config_id }) => config_id)).toEqual(['cfg']);
  });
});

describe('counts', () => {
  it('of stored jobs are written with what they count: no restart loses one', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    succeed(queue, worker);
    const before = countsOf(queue);
    queue.restart();
    expect(countsOf(queue)).toEqual(before);
    expect(before.settled.stored.succeeded).toBe(1);
  });

  it('of requests cost no statement of their own, and are written a second later', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.advance(2);
    queue.request();
    const before = queue.statements;
    succeed(queue, worker);
    expect(queue.statements - before).toBe(0);
    queue.advance(1.1);
    queue.restart();
    expect(countsOf(queue).settled.waiting.succeeded).toBe(1);
  });

  it('of more pools than 200 are one, called other', () => {
    const queue = new QueueHarness();
    for (let n = 0; n < 205; n++) queue.job({ config_id: `config-${n}` });
    const { pools } = queue.queue.read('metrics');
    expect(pools).toHaveLength(201);
    expect(countsOf(queue, 'other').submitted.stored).toBe(5);
    const other = pools.find(({ config_id }) => config_id === 'other');
    expect(other?.now.pending).toEqual([{ priority: 0, waiting: 0, stored: 5 }]);
  });

  it('of a pool that was idle for a day make room for another', () => {
    const queue = new QueueHarness();
    for (let n = 0; n < 200; n++)
      queue.queue.do('cancel', queue.job({ config_id: `config-${n}` }), 'cancelled', null);
    queue.nowMs += 25 * 3600 * 1000;
    queue.job({ config_id: 'new' });
    queue.restart();
    expect(countsOf(queue, 'new').submitted.stored).toBe(1);
    expect(queue.database.prepare('SELECT count(*) AS n FROM counts').get()).toEqual({ n: 200 });
  });
});

describe('how a pool stands', () => {
  it('tells its slots, what runs and waits, since when, and how many workers that takes', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 2 });
    const since = queue.nowMs;
    queue.submit({ priority: 5 }, { priority: 5 }, { priority: 5 }, {});
    queue.nowMs += 4000;
    queue.request();
    const [pool] = queue.queue.read('metrics').pools;
    expect(pool?.now).toEqual({
      pending: [
        { priority: 5, waiting: 0, stored: 1 },
        { priority: 0, waiting: 1, stored: 1 },
      ],
      oldest_since: { waiting: since + 4000, stored: since },
      running: { waiting: 0, stored: 2 },
      workers: { ready: 1, paused: 0, draining: 0 },
      slots: { busy: 2, free: 0, paused: 0 },
      slots_per_worker: 2,
      wanted_workers: 3,
    });
  });

  it('remembers how many slots a worker has when none is left', () => {
    const queue = new QueueHarness();
    queue.drop(queue.worker('w', { capacity: 4 }));
    queue.advance(11);
    queue.submit({}, {}, {}, {}, {});
    const [pool] = queue.queue.read('metrics').pools;
    expect(pool?.now).toMatchObject({ slots_per_worker: 4, wanted_workers: 2 });
  });
});

it('the status of a pool tells how its jobs stand, and how they ended before a restart', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  queue.submit({}, {}, {}, {}, { config_id: 'other' });
  succeed(queue, worker);
  fail(queue, worker, false);
  const ended = { completed: 1, failed: 1, retried: 0 };
  expect(queue.queue.read('poolJobs', 'cfg')).toEqual({ in_queue: 1, in_progress: 1, ...ended });
  expect(queue.queue.read('poolJobs', 'unheard of')).toMatchObject({ completed: 0, failed: 0 });
  queue.restart();
  expect(queue.queue.read('poolJobs', 'cfg')).toMatchObject(ended);
});
