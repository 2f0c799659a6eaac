import { describe, expect, it } from 'vitest';
import { alias, ask, queueWith, worker } from '../../support/aliased-queue.ts';
import { limited } from '../../support/limited-requests.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('of the limits of its token, a request for an alias', () => {
  it('counts as one request where its engine failed and it is tried again', () => {
    const queue = queueWith({ a: alias('big', { then: ['small'], on: ['failed'] }) });
    const big = worker(queue, 'big');
    const more = { job_id: 'one', ...limited({ requests_per_minute: 1 }) };
    ask(queue, 'a', more);
    const { job_id, fence_token } = big.lastJob();
    queue.say(big, { type: 'job_result', job_id, fence_token, result: { http_status: 500 } });
    const earlier = { attempts: 1, fence_token: 0, elapsed_ms: 5, failed_at: ['w-big'] };
    expect(ask(queue, 'a', { ...more, earlier })).not.toMatchObject([{ kind: 'refused' }]);
    expect(ask(queue, 'a', { ...more, job_id: 'other' })).toMatchObject([
      { kind: 'refused', reason: 'over_limit' },
    ]);
  });

  it('counts once where it falls back, for its model as for all', () => {
    const queue = new QueueHarness({ max_waiting: 1 });
    queue.queue.do('takeAliases', { a: alias('big', { then: ['small'], on: ['queue_full'] }) });
    for (const model of ['big', 'small']) worker(queue, model, 1);
    for (const _ of [1, 2]) ask(queue, 'big');
    const more = (job_id: string, model: string) => ({
      job_id,
      ...limited({ requests_per_minute: 2, models: { small: { requests_per_minute: 1 } } }),
      cost: { tokens: 10, model },
    });
    const fell = { from: 0, cause: 'queue_full' };
    const falls = (id: string) => [
      ask(queue, 'a', more(id, 'a'))[0],
      ask(queue, 'a', { ...more(id, 'a'), fell })[0],
    ];
    expect(falls('one')).toMatchObject([{ reason: 'queue_full' }, { kind: 'stream' }]);
    expect(falls('two')).toMatchObject([
      { reason: 'queue_full' },
      { reason: 'over_limit', message: expect.stringContaining('1 requests a minute') },
    ]);
    expect(ask(queue, 'a', more('three', 'a'))).toMatchObject([{ reason: 'over_limit' }]);
  });
});
