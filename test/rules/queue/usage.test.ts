import { describe, expect, it } from 'vitest';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { QueueHarness } from '../../support/queue-harness.ts';
import { failed, told, USAGE, usage, worker } from '../../support/usage-bench.ts';

const outcomes = (connection: FakeConnection) => connection.frames('ack').map(({ outcome }) => outcome);

describe('usage of stored jobs', () => {
  it('is counted when they end, once, by whom it was for', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    queue.job({ tenant: 'team', token_name: 'laptop' });
    queue.say(connection, told(connection.lastJob()));
    queue.say(connection, told(connection.lastJob()));
    expect(outcomes(connection)).toEqual(['accepted', 'accepted']);
    expect(usage(queue, ['tenant', 'token_name', 'config_id', 'model', 'mode'])).toEqual([
      {
        start: 0,
        tenant: 'team',
        token_name: 'laptop',
        config_id: 'cfg',
        model: 'tiny',
        mode: 'stored',
        requests: 1,
        succeeded: 1,
        failed: 0,
        cancelled: 0,
        input: 10,
        cached: 4,
        output: 5,
        reasoning: 2,
        wasted: 0,
        estimated_requests: 0,
        slot_ms: 0,
        unpriced_slot_ms: 0,
        nanodollars: 0,
      },
    ]);
  });

  it('is wasted where an attempt failed and another one ends the job', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    queue.job();
    queue.say(connection, failed(connection.lastJob(), { retryable: true }));
    queue.say(connection, failed(connection.lastJob(), { retryable: true }));
    queue.advance(5);
    queue.say(connection, told(connection.lastJob()));
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 10, output: 5, wasted: 15 }]);
  });

  it('is wasted where the job was given away and another worker ended it', () => {
    const queue = new QueueHarness();
    const slow = worker(queue, 'slow', { capacity: 1 });
    queue.job();
    const first = slow.lastJob();
    queue.say(slow, { type: 'pause' });
    queue.advance(31);
    const quick = worker(queue, 'quick');
    queue.advance(2);
    queue.say(quick, told(quick.lastJob()));
    for (let repeat = 0; repeat < 2; repeat += 1) queue.say(slow, told(first));
    expect(outcomes(slow)).toEqual(['stale', 'stale']);
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 10, output: 5, wasted: 15 }]);
  });

  it('is not told by another worker’s claim to the newest attempt', () => {
    const queue = new QueueHarness();
    const holder = worker(queue, 'holder');
    queue.job();
    const thief = worker(queue, 'thief');
    queue.say(thief, told(holder.lastJob()));
    expect(usage(queue)).toEqual([]);
  });

  it('says how jobs ended that used nothing', () => {
    const queue = new QueueHarness();
    queue.queue.do('cancel', queue.job(), 'cancelled', null);
    queue.job({ deadline_seconds: 5 });
    queue.advance(6);
    expect(usage(queue)).toMatchObject([
      { requests: 2, succeeded: 0, failed: 1, cancelled: 1, input: 0, output: 0, estimated_requests: 0 },
    ]);
  });

  it('never counts more cached or reasoning tokens than there are', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    queue.job();
    const odd = { prompt_tokens: 3, completion_tokens: 2, cached_tokens: 9, reasoning_tokens: 9 };
    queue.say(connection, told(connection.lastJob(), { usage: odd }));
    expect(usage(queue)).toMatchObject([{ input: 3, cached: 3, output: 2, reasoning: 2 }]);
  });

  it('tells apart a bounded number of models, whatever an engine calls them', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    for (let n = 0; n < 100; n += 1) {
      queue.job();
      queue.say(connection, told(connection.lastJob(), { usage: { ...USAGE, model: `model-${n}` } }));
    }
    const models = usage(queue, ['model']);
    expect(models).toHaveLength(65);
    expect(models.find(({ model }) => model === 'other')).toMatchObject({ requests: 36 });
  });
});

describe('usage of requests whose callers wait', () => {
  it('is written once a second, and acknowledged then', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    const written = queue.statements;
    for (const id of ['a', 'b', 'c']) {
      queue.request({ job_id: id });
      queue.say(connection, told(connection.lastJob()));
    }
    expect(queue.queue.read('status').running).toBe(0);
    expect(outcomes(connection)).toEqual([]);
    queue.advance(1);
    expect(outcomes(connection)).toEqual(['accepted', 'accepted', 'accepted']);
    // Three to roll up, one to add, two to remember the attempts; the rest is one look at what is due.
    expect(queue.statements - written).toBeLessThan(12);
    expect(usage(queue)).toMatchObject([{ requests: 3, succeeded: 3, input: 30, output: 15 }]);
  });

  it('is counted once when the queue dies after it was written and the worker says it again', () => {
    const queue = new QueueHarness();
    const before = worker(queue);
    queue.request({ job_id: 'a', tenant: 'team', token_name: 'laptop' });
    const job = before.lastJob();
    queue.say(before, told(job, { account: job.account }));
    queue.advance(1);
    queue.restart();
    const after = worker(queue, 'w', { jobs: [{ job_id: 'a', fence_token: job.fence_token }] });
    queue.say(after, told(job, { account: job.account }));
    expect(outcomes(after)).toEqual(['accepted']);
    expect(usage(queue, ['tenant'])).toMatchObject([
      { tenant: 'team', requests: 1, succeeded: 1, input: 10 },
    ]);
  });

  it('is counted for the same token when the queue dies before it was written', () => {
    const queue = new QueueHarness();
    const before = worker(queue);
    queue.request({ job_id: 'a', tenant: 'team', token_name: 'laptop' });
    const job = before.lastJob();
    queue.say(before, told(job, { account: job.account }));
    queue.restart();
    const after = worker(queue, 'w', { jobs: [{ job_id: 'a', fence_token: job.fence_token }] });
    queue.say(after, told(job, { account: job.account }));
    expect(outcomes(after)).toEqual([]);
    queue.advance(1);
    expect(outcomes(after)).toEqual(['accepted']);
    expect(usage(queue, ['tenant', 'token_name', 'config_id', 'model', 'mode'])).toMatchObject([
      {
        tenant: 'team',
        token_name: 'laptop',
        config_id: 'cfg',
        model: 'tiny',
        mode: 'waiting',
        requests: 1,
      },
    ]);
  });

  it('counts an error that the engine answered as a failure', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    queue.request({ job_id: 'a' });
    queue.say(connection, told(connection.lastJob(), { result: { http_status: 400 }, usage: undefined }));
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 0, failed: 1 }]);
    // For the operator all parts of the road did what they should (docs/metrics.md).
    const [pool] = queue.queue.read('metrics').pools;
    expect(pool?.counts.settled.waiting).toMatchObject({ succeeded: 1, failed: 0 });
  });

  it('is of the model that was asked for where its worker serves several and nothing is told', () => {
    const queue = new QueueHarness();
    const connection = worker(queue, 'w', { instance: { models: ['tiny', 'adapter'] } });
    queue.request({ job_id: 'a', model: 'adapter' });
    queue.say(connection, told(connection.lastJob(), { usage: undefined }));
    expect(usage(queue, ['model'])).toMatchObject([{ model: 'adapter', requests: 1 }]);
  });

  it('reads what a worker of the base protocol says of a chat', () => {
    const queue = new QueueHarness();
    const base = queue.baseWorker('base');
    queue.request({ model: 'cfg', job_id: 'a' });
    const completion = { model: 'tiny', usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } };
    queue.say(base, { type: 'job_result', job_id: 'a', result: { completion } });
    expect(usage(queue, ['model'])).toMatchObject([{ model: 'tiny', succeeded: 1, input: 3, output: 2 }]);
  });

  it('is written at once when its worker drains', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    queue.request({ job_id: 'a' });
    const first = connection.lastJob();
    queue.request({ job_id: 'b' });
    queue.say(connection, told(first));
    queue.say(connection, { type: 'drain' });
    expect(outcomes(connection)).toEqual(['accepted']);
    queue.say(connection, told(connection.lastJob()));
    expect(outcomes(connection)).toEqual(['accepted', 'accepted']);
  });

  it('does not count a failure for which the gateway asks again', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    queue.request({ job_id: 'a' });
    queue.say(connection, failed(connection.lastJob(), { retryable: true }));
    queue.advance(2);
    expect(usage(queue)).toMatchObject([{ requests: 1, failed: 1, wasted: 15 }]);
    queue.request({ job_id: 'a' });
    queue.say(connection, told(connection.lastJob()));
    expect(usage(queue)).toMatchObject([{ requests: 1, failed: 0, succeeded: 1, input: 10, wasted: 15 }]);
  });

  it('wastes an answer that was lost on its way, for which the gateway asks again', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    for (let ask = 0; ask < 2; ask += 1) {
      queue.request({ job_id: 'a' });
      queue.say(connection, told(connection.lastJob()));
      queue.advance(2);
    }
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 10, cached: 4, wasted: 15 }]);
  });

  it('counts what a caller got that hung up, and says that it is an estimate', () => {
    const queue = new QueueHarness();
    const connection = worker(queue);
    queue.request({ job_id: 'a' });
    const estimate = { prompt_tokens: 0, completion_tokens: 3, estimated: true };
    queue.say(
      connection,
      failed(connection.lastJob(), { code: 'cancelled', retryable: false, usage: estimate }),
    );
    expect(usage(queue)).toMatchObject([
      { requests: 1, cancelled: 1, failed: 0, output: 3, wasted: 0, estimated_requests: 1 },
    ]);
  });

  it('wastes what an attempt brings that was given up, also where its request has ended since', () => {
    const queue = new QueueHarness();
    const lost = worker(queue, 'lost');
    queue.request({ job_id: 'a' });
    const first = lost.lastJob();
    queue.drop(lost);
    queue.advance(11);
    const other = worker(queue, 'other');
    queue.request({ job_id: 'a' });
    queue.say(other, told(other.lastJob()));
    const back = worker(queue, 'lost', { jobs: [{ job_id: 'a', fence_token: first.fence_token }] });
    queue.say(back, told(first));
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, failed: 0, input: 10, wasted: 15 }]);
  });

  it('wastes what an attempt from before a restart brings for a request that was asked for anew', () => {
    const queue = new QueueHarness();
    const first = worker(queue, 'first');
    queue.request({ job_id: 'a' });
    const older = first.lastJob();
    queue.restart();
    const second = worker(queue, 'second');
    queue.request({ job_id: 'a' });
    queue.say(second, told(second.lastJob()));
    const back = worker(queue, 'first', { jobs: [{ job_id: 'a', fence_token: older.fence_token }] });
    queue.say(back, told(older));
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 10, wasted: 15 }]);
  });

  it('counts no attempt twice that was given up before a restart', () => {
    const queue = new QueueHarness();
    const lost = worker(queue, 'lost');
    queue.request({ job_id: 'a' });
    const first = lost.lastJob();
    queue.drop(lost);
    const other = worker(queue, 'other');
    queue.request({ job_id: 'a' });
    queue.say(other, told(other.lastJob()));
    queue.advance(1);
    queue.restart();
    const back = worker(queue, 'lost', { jobs: [{ job_id: 'a', fence_token: first.fence_token }] });
    queue.say(back, told(first));
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 10 }]);
  });
});
