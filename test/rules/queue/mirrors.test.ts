import { describe, expect, it } from 'vitest';
import type { Alias } from '../../../src/aliases/alias.ts';
import { bounds } from '../../../src/protocol/index.ts';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const alias = (share: number): Alias => ({
  split: { by: 'request' },
  to: [{ model: 'big', weight: 1 }],
  then: [],
  on: [],
  mirror: { model: 'new', share },
});

function queueWith(share: number, slots: Record<string, number>) {
  const queue = new QueueHarness();
  queue.queue.do('takeAliases', { name: alias(share) });
  const workers = Object.entries(slots).map(([model, capacity]) =>
    queue.worker(`w-${model}`, { config_id: `pool-${model}`, capacity, instance: { models: [model] } }),
  );
  return { queue, workers };
}

const payload = (prompt = 'a') =>
  JSON.stringify({
    method: 'POST',
    path: '/v1/completions',
    body: JSON.stringify({ model: 'name', prompt }),
  });
const ask = (queue: QueueHarness, more: object = {}) =>
  queue.request({ model: 'name', payload: payload(), tenant: 't', token_name: 'app', ...more });
const counts = (queue: QueueHarness) => queue.queue.read('metrics').mirrors;

/** What a worker answers that ends its newest job. */
function end(queue: QueueHarness, worker: FakeConnection, how: object): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { job_id, fence_token, ...how });
}
const SUCCEEDED = { type: 'job_result', result: {}, usage: { prompt_tokens: 3, completion_tokens: 4 } };
const FAILED = { type: 'job_error', error: 'no', retryable: true };

describe('the mirror of an alias', () => {
  it('gets a copy of a request, which belongs to nobody and gives way to all else', () => {
    const { queue, workers } = queueWith(1, { big: 1, new: 4 });
    const [answer] = ask(queue);
    expect(answer).toMatchObject({ kind: 'stream', worker_id: 'w-big' });
    expect(workers[1]!.frames('job')).toEqual([]);
    queue.advance(1);
    const copy = workers[1]!.lastJob();
    expect(JSON.parse((copy.payload as { body: string }).body)).toEqual({ model: 'new', prompt: 'a' });
    expect(copy).toMatchObject({ priority: -10, mode: 'persisted' });
    expect(Number(copy.deadline_ms)).toBeGreaterThan(590_000);
    expect(queue.queue.read('get', copy.job_id, null)).toMatchObject({ tenant: null, max_attempts: 1 });
  });

  it.each([
    ['succeeds', SUCCEEDED, { succeeded: 1, failed: 0 }],
    ['fails', FAILED, { succeeded: 0, failed: 1 }],
  ])('is counted when a copy %s, and nothing is kept of it', (_, how, expected) => {
    const { queue, workers } = queueWith(1, { big: 1, new: 4 });
    ask(queue);
    queue.advance(1);
    const { job_id } = workers[1]!.lastJob();
    end(queue, workers[1]!, how);
    queue.advance(1);
    expect(counts(queue)).toEqual([{ alias: 'name', model: 'new', dropped: 0, ...expected }]);
    expect(queue.state(job_id)).toBe('missing');
    const records = queue.queue.takeEnded().filter(({ model }) => model === 'new');
    expect(records).toMatchObject([{ alias: 'name', fallback: 'mirror', tenant: null }]);
  });

  it('drops copies that no slot is free for, or that are too long, and counts them', () => {
    const { queue, workers } = queueWith(1, { big: 9, new: 2 });
    for (let index = 0; index < 5; index++) ask(queue);
    queue.advance(1);
    const sent = workers[1]!.frames('job').length;
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThan(3);
    expect(counts(queue)).toMatchObject([{ dropped: 5 - sent }]);
    ask(queue, { payload: payload('a'.repeat(bounds.INLINE_BYTES)) });
    queue.advance(1);
    expect(counts(queue)).toMatchObject([{ dropped: 6 - sent }]);
    expect(queue.queue.read('status').pending).toBe(0);
  });

  it('drops all copies where nobody serves its model, and requests do not notice', () => {
    const { queue } = queueWith(1, { big: 2 });
    expect(ask(queue)).toMatchObject([{ kind: 'stream' }]);
    queue.advance(1);
    expect(counts(queue)).toMatchObject([{ dropped: 1, succeeded: 0, failed: 0 }]);
  });

  it('gets its share', () => {
    const { queue, workers } = queueWith(0.25, { big: 4000, new: 4000 });
    for (let index = 0; index < 400; index++) {
      ask(queue, { job_id: `job-${index}` });
      if (index % 50 === 0) queue.advance(1);
    }
    queue.advance(1);
    const share = workers[1]!.frames('job').length / 400;
    expect(share).toBeGreaterThan(0.15);
    expect(share).toBeLessThan(0.35);
  });

  it('gets one copy of a request that is asked again', () => {
    const { queue, workers } = queueWith(1, { big: 4, new: 4 });
    ask(queue, { job_id: 'one' });
    const earlier = { attempts: 1, fence_token: 1, elapsed_ms: 5, failed_at: [] };
    ask(queue, { job_id: 'one', earlier });
    queue.advance(1);
    expect(workers[1]!.frames('job')).toHaveLength(1);
  });

  it('gets no copy of a request that went to no worker, and one of a request that fell back', () => {
    const queue = new QueueHarness({ max_waiting: 1 });
    const own: Alias = { ...alias(1), then: ['small'], on: ['queue_full'] };
    queue.queue.do('takeAliases', { name: own });
    for (const model of ['big', 'small'])
      queue.worker(`w-${model}`, { config_id: `pool-${model}`, instance: { models: [model] } });
    const mirror = queue.worker('w-new', {
      config_id: 'pool-new',
      capacity: 9,
      instance: { models: ['new'] },
    });
    for (const _ of [1, 2]) queue.request({ model: 'big' });
    expect(ask(queue, { job_id: 'one' })).toMatchObject([{ kind: 'refused', reason: 'queue_full' }]);
    queue.advance(1);
    expect(mirror.frames('job')).toEqual([]);
    const fell = { from: 0, cause: 'queue_full' };
    expect(ask(queue, { job_id: 'one', fell })).toMatchObject([{ kind: 'stream', worker_id: 'w-small' }]);
    queue.advance(1);
    expect(mirror.frames('job')).toHaveLength(1);
  });
});
