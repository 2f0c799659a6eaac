import { describe, expect, it } from 'vitest';
import { come, limited, settle, standing, stored } from '../../support/limited-requests.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';
import { usage } from '../../support/usage-bench.ts';

/** What a cancelled attempt used by the word of its worker, which comes after the cancellation. */
const USED = { prompt_tokens: 5, completion_tokens: 92, model: 'tiny', estimated: true };

describe('a stream that is broken off', () => {
  const limits = { tokens_per_minute: 100, tokens_per_month: 1000 };
  const used = (queue: QueueHarness) => standing(queue).tokens_per_minute.used;
  const month = (queue: QueueHarness) => standing(queue).tokens_per_month.used;

  /** What its worker says when the queue has told it to stop, or its deadline has passed. */
  function lastWord(queue: QueueHarness, worker: FakeConnection, code = 'cancelled'): void {
    const { job_id, fence_token, account } = worker.lastJob();
    const ref = { job_id, fence_token, account };
    queue.say(worker, { type: 'job_error', ...ref, error: code, code, usage: USED });
  }

  it.each([
    ['its caller hangs up', 'caller_gone', false],
    ['it is cancelled by its id', 'cancelled', false],
    ['it is a stored job that is cancelled', 'cancelled', true],
  ] as const)('costs what had come where %s before its worker tells', (_, reason, isStored) => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 100 });
    if (isStored) queue.job({ ...stored(limits), id: 'r1', stream: true });
    else queue.request(limited(limits, { job_id: 'r1' }));
    come(queue, worker, [worker.lastJob().fence_token, 90]);
    queue.queue.do('cancel', 'r1', reason, null);
    queue.queue.beforeCommit();
    expect([used(queue), month(queue)]).toEqual([90, 90]);
    lastWord(queue, worker);
    lastWord(queue, worker);
    queue.advance(2);
    expect([used(queue), month(queue)]).toEqual([97, 97]);
    expect(usage(queue)).toMatchObject([
      { requests: 1, cancelled: 1, input: 5, output: 92, wasted: 0, estimated_requests: 1 },
    ]);
    expect(worker.frames('ack')).toMatchObject([{ outcome: 'accepted' }, { outcome: 'accepted' }]);
    expect(queue.queue.read('sharing')).toMatchObject([
      { tokens: 97, tenants: [{ tenant: 'a', tokens: 97 }] },
    ]);
    queue.restart();
    expect([used(queue), month(queue)]).toEqual([97, 97]);
  });

  it.each([
    ['a deadline that its worker watches', { deadline_ms: 5000 }, false],
    ['a time limit that the queue watches', { limit_ms: 5000 }, true],
    ['the deadline of a stored job', { deadline_seconds: 5 }, true],
  ] as const)('is used, not wasted, where it is ended by %s', (_, until, isEndedByQueue) => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 100 });
    if ('deadline_seconds' in until) queue.job({ ...stored(limits), id: 'r1', stream: true, ...until });
    else queue.request(limited(limits, { job_id: 'r1', ...until }));
    come(queue, worker, [worker.lastJob().fence_token, 90]);
    queue.advance(6);
    expect(worker.frames('job_revoked')).toHaveLength(isEndedByQueue ? 1 : 0);
    expect([used(queue), month(queue)]).toEqual([90, 90]);
    lastWord(queue, worker, 'deadline');
    lastWord(queue, worker, 'deadline');
    queue.advance(2);
    expect([used(queue), month(queue)]).toEqual([97, 97]);
    expect(usage(queue)).toMatchObject([
      { requests: 1, failed: 1, input: 5, output: 92, wasted: 0, estimated_requests: 1 },
    ]);
    expect(queue.queue.read('sharing')).toMatchObject([{ tokens: 97 }]);
    queue.restart();
    expect([used(queue), month(queue)]).toEqual([97, 97]);
  });

  it('is used where its deadline ends it after a restart of the queue', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 100 });
    queue.request(limited(limits, { job_id: 'r1', deadline_ms: 5000 }));
    queue.advance(2);
    queue.restart();
    const back = queue.worker('w', { capacity: 100, jobs: [worker.lastJob()] });
    const { job_id, fence_token, account } = worker.lastJob();
    const error = { type: 'job_error', error: 'late', code: 'deadline', usage: USED };
    queue.say(back, { ...error, job_id, fence_token, account });
    queue.say(back, { ...error, job_id, fence_token, account });
    expect([used(queue), month(queue)]).toEqual([97, 97]);
  });

  it('costs what its worker had told where that dies before it tells the rest', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 100 });
    queue.request(limited(limits, { job_id: 'r1' }));
    come(queue, worker, [worker.lastJob().fence_token, 90]);
    queue.queue.do('cancel', 'r1', 'caller_gone', null);
    queue.drop(worker);
    queue.advance(20);
    expect([used(queue), month(queue)]).toEqual([90, 90]);
  });

  it('costs what it used where its worker hears of it after a restart of the queue', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 100 });
    queue.request(limited(limits, { job_id: 'r1' }));
    queue.advance(2);
    queue.restart();
    const back = queue.worker('w', { capacity: 100, jobs: [worker.lastJob()] });
    queue.queue.do('cancel', 'r1', 'caller_gone', null);
    expect(back.frames('job_revoked')).toMatchObject([{ job_id: 'r1' }]);
    const { job_id, fence_token, account } = worker.lastJob();
    const error = { type: 'job_error', error: 'cancelled', code: 'cancelled', usage: USED };
    queue.say(back, { ...error, job_id, fence_token, account });
    queue.say(back, { ...error, job_id, fence_token, account });
    expect([used(queue), month(queue)]).toEqual([97, 97]);
  });

  it('is charged to its tenant’s share', () => {
    const order = (tokens: number) => {
      const queue = new QueueHarness();
      const worker = queue.worker('w', { capacity: 1 });
      queue.request({ tenant: 'breaks_off', job_id: 'r1' });
      queue.request({ tenant: 'other', job_id: 'r2' });
      for (const name of ['breaks_off', 'other'])
        for (let n = 0; n < 3; n++) queue.request({ tenant: name, job_id: `${name}-${n}` });
      const usage = { prompt_tokens: 0, completion_tokens: tokens, model: 'tiny' };
      const first = worker.lastJob();
      queue.queue.do('cancel', 'r1', 'caller_gone', null);
      const { job_id, fence_token } = first;
      queue.say(worker, { type: 'job_error', job_id, fence_token, error: '', code: 'cancelled', usage });
      for (let n = 0; n < 3; n++) settle(queue, worker, 10_000);
      return worker
        .frames('job')
        .slice(2)
        .map(({ job_id }) => String(job_id).split('-')[0]);
    };
    expect(order(0)).toEqual(['breaks_off', 'breaks_off', 'other']);
    expect(order(50_000)).toEqual(['other', 'other', 'other']);
  });
});
