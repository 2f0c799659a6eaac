import { describe, expect, it } from 'vitest';
import { limited, settle, standing, stored, waits } from '../../support/limited-requests.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

function settleAll(queue: QueueHarness, worker: FakeConnection): void {
  for (const { job_id, fence_token } of worker.frames('job')) {
    queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
  }
}

describe('requests a minute', () => {
  it('are refused beyond the limit, with the time that it opens and headers', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    const limits = { requests_per_minute: 2 };
    const [first] = queue.request(limited(limits));
    expect(first).toMatchObject({
      kind: 'stream',
      headers: {
        'x-ratelimit-limit-requests': '2',
        'x-ratelimit-remaining-requests': '1',
        'x-ratelimit-reset-requests': '1m1s',
      },
    });
    queue.advance(20);
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request(limited(limits))).toMatchObject([
      {
        kind: 'refused',
        reason: 'over_limit',
        retry_after_seconds: 41,
        headers: { 'x-ratelimit-remaining-requests': '0' },
      },
    ]);
    queue.advance(41);
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
  });

  it('let no other token wait', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    queue.request(limited({ requests_per_minute: 1 }));
    expect(queue.request(limited({ requests_per_minute: 1 }))).toMatchObject([{ kind: 'refused' }]);
    expect(queue.request(limited({ requests_per_minute: 1 }, { token_name: 'b' }))).toMatchObject([
      { kind: 'stream' },
    ]);
    expect(queue.request(limited(null, { token_name: 'c' }))).toMatchObject([{ kind: 'stream' }]);
  });

  it('are waited for by a caller that said how long it waits, in the order in which they came', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    const limits = { requests_per_minute: 1 };
    queue.request(limited(limits));
    const [second, third] = [queue.request(waits(limits)), queue.request(waits(limits))];
    // Those that wait go first.
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'refused', reason: 'over_limit' }]);
    expect([second, third]).toEqual([[], []]);
    queue.advance(61);
    expect([second, third]).toMatchObject([[{ kind: 'stream' }], []]);
    queue.advance(61);
    expect(third).toMatchObject([{ kind: 'stream' }]);
  });

  it('are not waited for where the minute comes too late', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    const limits = { requests_per_minute: 1 };
    queue.request(limited(limits));
    expect(queue.request(waits(limits, { wait_for_slot_ms: 30_000 }))).toMatchObject([
      { reason: 'over_limit' },
    ]);
  });
});

describe('tokens a minute', () => {
  it('are reserved by what a request may cost, and corrected when it ends', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { tokens_per_minute: 100 };
    queue.request(limited(limits, { cost: { tokens: 90 } }));
    expect(queue.request(limited(limits, { cost: { tokens: 20 } }))).toMatchObject([
      { reason: 'over_limit' },
    ]);
    settle(queue, worker, 15);
    expect(standing(queue).tokens_per_minute).toEqual({ used: 15, limit: 100 });
    expect(queue.request(limited(limits, { cost: { tokens: 85 } }))).toMatchObject([{ kind: 'stream' }]);
  });

  it('admit one request that may cost more than a minute has, alone', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { tokens_per_minute: 100 };
    expect(queue.request(limited(limits, { cost: { tokens: 5000 } }))).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request(limited(limits, { cost: { tokens: 1 } }))).toMatchObject([{ reason: 'over_limit' }]);
    settle(queue, worker, 300);
    expect(queue.request(limited(limits, { cost: { tokens: 1 } }))).toMatchObject([
      { reason: 'over_limit', retry_after_seconds: 61 },
    ]);
  });
});

describe('running at a time', () => {
  it.each(['settles', 'hangs up', 'fails', 'loses its worker'])(
    'is freed once by a request that %s',
    (what) => {
      const queue = new QueueHarness();
      const worker = queue.worker('w', { capacity: 10 });
      const limits = { running: 1 };
      queue.request(limited(limits, { job_id: 'r1' }));
      expect(queue.request(limited(limits))).toMatchObject([
        { reason: 'over_limit', retry_after_seconds: 1 },
      ]);
      const { job_id, fence_token } = worker.lastJob();
      if (what === 'settles') settle(queue, worker);
      if (what === 'hangs up') queue.queue.do('cancel', 'r1', 'caller_gone', null);
      if (what === 'fails') queue.say(worker, { type: 'job_error', job_id, fence_token, error: 'no' });
      if (what === 'loses its worker') {
        queue.drop(worker);
        queue.advance(20);
        queue.worker('w2', { capacity: 10 });
      }
      expect(standing(queue).running.used).toBe(0);
      expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
      expect(queue.request(limited(limits))).toMatchObject([{ reason: 'over_limit' }]);
    },
  );

  it('counts a request that is asked for again once, and lets it in', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { running: 1, requests_per_minute: 1 };
    queue.request(limited(limits, { job_id: 'r1' }));
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'draining' });
    expect(standing(queue).running.used).toBe(0);
    expect(queue.request(limited(limits, { job_id: 'r1' }))).toMatchObject([{ kind: 'stream' }]);
    expect(standing(queue)).toMatchObject({ running: { used: 1 }, requests_per_minute: { used: 1 } });
  });

  it.each(['fails at its engine', 'is released', 'loses its worker'])(
    'holds for a request that is asked for again after its attempt %s',
    (what) => {
      const queue = new QueueHarness();
      const worker = queue.worker('w', { capacity: 10 });
      const limits = { running: 1, requests_per_minute: 4 };
      queue.request(limited(limits, { job_id: 'r1' }));
      const waiting = ['r2', 'r3'].map((job_id) => queue.request(waits(limits, { job_id })));
      const { job_id, fence_token } = worker.lastJob();
      if (what === 'is released')
        queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'overloaded' });
      if (what === 'fails at its engine')
        queue.say(worker, { type: 'job_error', job_id, fence_token, error: 'busy', retryable: true });
      if (what === 'loses its worker') {
        queue.drop(worker);
        queue.worker('w', { capacity: 10, jobs: [] });
      }
      const newest = queue.connections.values().next().value!;
      // The room that the first attempt held is another request's by now.
      expect(waiting).toMatchObject([[{ kind: 'stream' }], []]);
      const attempts = what === 'is released' ? 0 : 1;
      const earlier = { attempts, fence_token, elapsed_ms: 5, failed_at: [] };
      const again = queue.request(limited(limits, { job_id: 'r1', earlier }));
      expect(again).toEqual([]);
      expect(standing(queue).running.used).toBe(1);
      settle(queue, newest);
      // The request that was admitted before goes before the one that never was.
      expect([again, waiting[1]]).toMatchObject([[{ kind: 'stream' }], []]);
      settle(queue, newest);
      expect(waiting[1]).toMatchObject([{ kind: 'stream' }]);
      expect(standing(queue)).toMatchObject({ running: { used: 1 }, requests_per_minute: { used: 3 } });
    },
  );

  it('holds for those that workers go on with after a restart of the queue', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { running: 1, requests_per_minute: 10 };
    queue.request(limited(limits, { job_id: 'r1' }));
    const { job_id, fence_token, account } = worker.lastJob();
    // Of the request nothing was written yet.
    queue.restart();
    const back = queue.worker('w', { capacity: 10, jobs: [{ job_id, fence_token, account }] });
    expect(queue.request(limited(limits))).toMatchObject([{ reason: 'over_limit' }]);
    const usage = { prompt_tokens: 3, completion_tokens: 4, model: 'tiny' };
    queue.say(back, { type: 'job_result', job_id, fence_token, account, result: {}, usage });
    expect(standing(queue)).toMatchObject({
      running: { used: 0 },
      requests_per_minute: { used: 1 },
      tokens_per_minute: { used: 7 },
    });
    expect(queue.request(limited(limits))).toMatchObject([{ kind: 'stream' }]);
  });
});

describe('limits by model', () => {
  it('hold beside those of all', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    queue.worker('w2', { config_id: 'big', capacity: 10, instance: { models: ['large'] } });
    const limits = { requests_per_minute: 3, models: { 'large*': { requests_per_minute: 1 } } };
    expect(queue.request(limited(limits, { model: 'large' }))).toMatchObject([{ kind: 'stream' }]);
    const [over] = queue.request(limited(limits, { model: 'large' }));
    expect(over).toMatchObject({ reason: 'over_limit', message: expect.stringContaining('for "large*"') });
    expect(queue.request(limited(limits))).toMatchObject([
      { kind: 'stream', headers: { 'x-ratelimit-limit-requests': '3' } },
    ]);
  });
});

describe('stored jobs', () => {
  it('are taken and wait for their limits', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { requests_per_minute: 2 };
    const ids = [1, 2, 3, 4, 5].map(() => queue.job(stored(limits)));
    expect(ids.map((id) => queue.state(id))).toEqual(['leased', 'leased', 'pending', 'pending', 'pending']);
    expect(standing(queue).held).toBe(3);
    settleAll(queue, worker);
    queue.advance(61);
    expect(worker.frames('job')).toHaveLength(4);
    settleAll(queue, worker);
    queue.advance(61);
    expect(worker.frames('job')).toHaveLength(5);
    expect(standing(queue).held).toBe(0);
  });

  it('run one after another where one may run at a time, the higher priority first', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { running: 1 };
    queue.job(stored(limits, { id: 'first' }));
    queue.job(stored(limits, { id: 'low' }));
    queue.job(stored(limits, { id: 'high', priority: 5 }));
    for (const id of ['first', 'high', 'low']) {
      expect(worker.lastJob().job_id).toBe(id);
      settle(queue, worker);
    }
  });

  it('are admitted at once when what was before them in line is cancelled', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    const limits = { tokens_per_minute: 100 };
    for (const [id, tokens] of [
      ['runs', 60],
      ['large', 50],
      ['small', 10],
    ] as const)
      queue.job(stored(limits, { id, cost: { tokens } }));
    expect(queue.state('small')).toBe('pending');
    queue.queue.do('cancel', 'large', 'cancelled', null);
    expect(queue.state('small')).toBe('leased');
  });

  it('run one after another whatever characters the name of their pool has', () => {
    const queue = new QueueHarness();
    const pool = { config_id: 'a\nb' };
    const worker = queue.worker('w', { capacity: 10, ...pool });
    for (const id of ['one', 'two']) queue.job(stored({ running: 1 }, { id, ...pool }));
    queue.queue.do('cancel', 'one', 'cancelled', null);
    expect(worker.lastJob().job_id).toBe('two');
    expect(standing(queue)).toMatchObject({ running: { used: 1 }, held: 0 });
  });

  it('that wait for a slot hold nothing, whatever their priority', () => {
    const queue = new QueueHarness();
    const limits = { running: 2, requests_per_minute: 10, tokens_per_minute: 100 };
    for (const priority of [-10, 0, 5]) queue.job(stored(limits, { priority }));
    expect(standing(queue)).toMatchObject({
      running: { used: 0 },
      requests_per_minute: { used: 0 },
      tokens_per_minute: { used: 0 },
    });
    queue.worker('w', { capacity: 1 });
    expect(standing(queue)).toMatchObject({
      running: { used: 1 },
      requests_per_minute: { used: 1 },
      tokens_per_minute: { used: 10 },
    });
  });

  it('of a low priority that wait for a slot shut out no request of their token', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 1 });
    const limits = { running: 1, tokens_per_minute: 100 };
    queue.request({ tenant: 'other' });
    queue.job(stored(limits, { id: 'line', priority: -10, cost: { tokens: 100 } }));
    const asked = queue.request(limited(limits));
    expect(asked).toEqual([]);
    settle(queue, worker);
    expect(asked).toMatchObject([{ kind: 'stream' }]);
    queue.worker('w2', { capacity: 1 });
    // It found room when it was submitted, and has none now that a slot is free.
    expect(queue.state('line')).toBe('pending');
    expect(standing(queue)).toMatchObject({ running: { used: 1 }, held: 1 });
    settle(queue, worker, 0);
    expect(queue.state('line')).toBe('leased');
  });

  it('that are to be tried again hold nothing meanwhile, are admitted anew, and count once', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { running: 1, requests_per_minute: 10 };
    queue.job(stored(limits, { id: 'one' }));
    queue.job(stored(limits, { id: 'two' }));
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_error', job_id, fence_token, error: 'again', retryable: true });
    expect(worker.lastJob()).toMatchObject({ job_id: 'two' });
    queue.advance(10);
    expect(queue.state('one')).toBe('pending');
    expect(standing(queue)).toMatchObject({ running: { used: 1 }, held: 1 });
    settle(queue, worker);
    expect(worker.lastJob()).toMatchObject({ job_id: 'one' });
    settle(queue, worker);
    expect(standing(queue)).toMatchObject({
      running: { used: 0 },
      held: 0,
      requests_per_minute: { used: 2 },
    });
  });

  it('that run hold what they do over a restart, and free it once', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { running: 1 };
    queue.job(stored(limits, { id: 'one' }));
    queue.job(stored(limits, { id: 'two' }));
    const { job_id, fence_token } = worker.lastJob();
    queue.restart();
    expect(standing(queue)).toMatchObject({ running: { used: 1 }, held: 1 });
    const back = queue.worker('w', { capacity: 10, jobs: [{ job_id, fence_token }] });
    queue.advance(5);
    expect(queue.state('two')).toBe('pending');
    queue.say(back, { type: 'job_result', job_id, fence_token, result: {} });
    expect(back.lastJob()).toMatchObject({ job_id: 'two' });
    queue.queue.do('cancel', 'two', 'cancelled', null);
    expect(standing(queue)).toMatchObject({ running: { used: 0 }, held: 0 });
  });

  it('whose lease ran out and whose worker goes on with them are admitted again with it', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 1 });
    const limits = { running: 1 };
    queue.job(stored(limits, { id: 'one' }));
    const { job_id, fence_token } = worker.lastJob();
    queue.drop(worker);
    queue.advance(15);
    expect(queue.state('one')).toBe('pending');
    expect(standing(queue).running.used).toBe(0);
    queue.worker('w', { capacity: 1, jobs: [{ job_id, fence_token }] });
    expect(queue.state('one')).toBe('leased');
    expect(standing(queue)).toMatchObject({ running: { used: 1 }, held: 0 });
  });

  it('that are cancelled or expire while they are held leave nothing behind', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    const limits = { running: 1 };
    queue.job(stored(limits));
    queue.job(stored(limits, { id: 'cancelled' }));
    queue.job(stored(limits, { id: 'expired', deadline_seconds: 5 }));
    queue.queue.do('cancel', 'cancelled', 'cancelled', null);
    queue.advance(10);
    expect(queue.state('expired')).toBe('expired');
    expect(standing(queue).held).toBe(0);
  });

  it('are admitted at once when their limits are raised or taken away', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    for (let n = 0; n < 4; n++) queue.job(stored({ requests_per_minute: 1 }));
    queue.queue.do('reportLimits', [{ token_name: 'a', tenant: 'a', limits: { requests_per_minute: 2 } }]);
    expect(worker.frames('job')).toHaveLength(2);
    queue.queue.do('reportLimits', [{ token_name: 'a', tenant: 'a', limits: null }]);
    expect(worker.frames('job')).toHaveLength(4);
  });

  it('are waited for by the alarm, also over a restart', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 10 });
    for (let n = 0; n < 2; n++) queue.job(stored({ requests_per_minute: 1 }));
    queue.hibernate();
    queue.advance(61);
    expect(standing(queue).held).toBe(0);
  });
});

describe('what was used', () => {
  it('counts on after a restart, each thing once', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 10 });
    const limits = { requests_per_minute: 10, tokens_per_minute: 100 };
    queue.request(limited(limits));
    settle(queue, worker, 30);
    queue.advance(2);
    queue.restart();
    expect(standing(queue)).toMatchObject({
      requests_per_minute: { used: 1 },
      tokens_per_minute: { used: 30 },
      running: { used: 0 },
    });
  });
});
