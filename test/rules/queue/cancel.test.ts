import { describe, expect, it } from 'vitest';
import { failure, result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';
import { usage } from '../../support/usage-bench.ts';

describe('a cancellation', () => {
  it('cancels a leased job, revokes it, and calls its late result stale', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const next = queue.job();
    const job = worker.lastJob();
    expect(queue.queue.do('cancel', id, 'cancelled', null)).toMatchObject({ state: 'cancelled' });
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: id, reason: 'cancelled' }]);
    expect(worker.lastJob().job_id).toBe(next);
    queue.say(worker, result(job));
    expect(worker.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    expect(queue.state(id)).toBe('cancelled');
  });

  it('leaves a settled job as it is and knows nothing of one that never was', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.say(worker, result(worker.lastJob()));
    expect(queue.queue.do('cancel', id, 'cancelled', null)).toMatchObject({ state: 'succeeded' });
    expect(queue.queue.do('cancel', 'ghost', 'cancelled', null)).toBeNull();
  });
});

describe('the record of a job that was ended while it ran', () => {
  const USED = { prompt_tokens: 10, completion_tokens: 7, cached_tokens: 4, estimated: true };
  const LOAD = (fence: number, tokens: number) => ({
    ...{ type: 'load', running: 1, waiting: 0, kv_cache_usage: 0, slots_free: 0 },
    generated: [[fence, tokens]],
  });
  const usageOf = (queue: QueueHarness, id: string) => queue.queue.read('get', id, null)!.error?.usage;

  it.each(['cancelled', 'expired'])('is told with what its worker reports, as that is counted: %s', (end) => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ ...(end === 'expired' && { deadline_seconds: 5 }) });
    const job = worker.lastJob();
    queue.say(worker, LOAD(job.fence_token, 3));
    if (end === 'cancelled') queue.queue.do('cancel', id, 'cancelled', null);
    else queue.advance(6);
    expect(usageOf(queue, id)).toEqual({ prompt_tokens: 0, completion_tokens: 3, estimated: true });
    const told: unknown[] = [];
    queue.queue.wait('used', id, 2000, null, (view) => told.push(view?.error?.usage));
    expect(told).toEqual([]);
    queue.say(worker, failure(job, { code: 'cancelled', usage: { ...USED, model: 'tiny' } }));
    expect(told).toEqual([USED]);
    queue.queue.wait('used', id, 2000, null, (view) => told.push(view?.error?.usage));
    expect(told).toEqual([USED, USED]);
    // One commit has what was reported and what it was counted as.
    queue.restart();
    queue.queue.wait('used', id, 2000, null, (view) => told.push(view?.error?.usage));
    expect(told).toEqual([USED, USED, USED]);
    expect(usageOf(queue, id)).toEqual(USED);
    expect(usage(queue)).toMatchObject([{ input: 10, output: 7, cached: 4, wasted: 0 }]);
    expect(queue.state(id)).toBe(end);
  });

  it.each([
    ['cancelled', 'cancelled'],
    ['expired', 'deadline'],
  ])('is told and counted what its worker reports after a restart of the queue, once: %s', (end, reason) => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ ...(end === 'expired' && { deadline_seconds: 5 }) });
    const job = worker.lastJob();
    queue.say(worker, LOAD(job.fence_token, 3));
    if (end === 'cancelled') queue.queue.do('cancel', id, 'cancelled', null);
    else queue.advance(6);
    queue.queue.beforeCommit();
    for (let life = 0; life < 2; life += 1) {
      queue.restart();
      const again = queue.worker('w', { jobs: [{ job_id: id, fence_token: job.fence_token }] });
      expect(again.frames('registered')).toMatchObject([{ revoked: [{ job_id: id, reason }] }]);
      queue.say(again, failure(job, { code: 'cancelled', usage: { ...USED, model: 'tiny' } }));
      expect(again.frames('ack')).toMatchObject([{ outcome: 'accepted' }]);
      expect(usageOf(queue, id)).toEqual(USED);
      expect(usage(queue)).toMatchObject([{ requests: 1, input: 10, output: 7, cached: 4, wasted: 0 }]);
    }
  });

  it('takes what its worker reports once, and none of it once the job is deleted', () => {
    const queue = new QueueHarness({ retention_seconds: 60 });
    const worker = queue.worker('w', { capacity: 2 });
    const [once, deleted] = [queue.job(), queue.job()];
    const [first, second] = worker.frames('job') as ReturnType<typeof worker.lastJob>[];
    for (const id of [once, deleted]) queue.queue.do('cancel', id, 'cancelled', null);
    queue.say(worker, failure(first!, { code: 'cancelled', usage: { ...USED, model: 'tiny' } }));
    const more = { ...USED, completion_tokens: 9 };
    queue.say(worker, failure(first!, { code: 'cancelled', usage: { ...more, model: 'tiny' } }));
    expect(usageOf(queue, once)).toEqual(USED);
    queue.advance(61);
    queue.say(worker, failure(second!, { code: 'cancelled', usage: { ...USED, model: 'tiny' } }));
    expect([queue.state(once), queue.state(deleted)]).toEqual(['missing', 'missing']);
    expect(usage(queue)).toMatchObject([{ requests: 2, input: 20, output: 14, wasted: 0 }]);
  });

  it.each(['runs', 'waits'])(
    'has nothing of an attempt before its caller had it tried again: it %s',
    (now) => {
      const queue = new QueueHarness();
      const worker = queue.worker('w');
      const id = queue.job({ deadline_seconds: 5 });
      const job = worker.lastJob();
      queue.advance(6);
      if (now === 'waits') queue.job();
      queue.queue.do('retry', id, null);
      queue.queue.do('cancel', id, 'cancelled', null);
      const before = usageOf(queue, id);
      expect(before?.estimated).toBe(now === 'runs' ? true : undefined);
      queue.say(worker, failure(job, { code: 'deadline', usage: { ...USED, model: 'tiny' } }));
      expect(usageOf(queue, id)).toEqual(before);
      expect(usage(queue)).toMatchObject([{ input: 10, output: 7 }]);
    },
  );

  it('has what was known when its worker does not report', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    const id = queue.job();
    queue.queue.do('cancel', id, 'cancelled', null);
    const told: unknown[] = [];
    queue.queue.wait('used', id, 2000, null, (view) => told.push(view?.error?.usage));
    queue.advance(3);
    expect(told).toMatchObject([{ completion_tokens: 0 }]);
  });

  it('has what each failed attempt used', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    queue.say(worker, failure(worker.lastJob(), { code: 'engine_died', usage: { ...USED, model: 'tiny' } }));
    expect(usageOf(queue, id)).toEqual(USED);
    expect(queue.queue.read('get', id, null)!.attempt_errors).toMatchObject([{ usage: USED }]);
    expect(usage(queue)).toMatchObject([{ wasted: 17 }]);
  });
});

describe('a request that is cancelled by its id', () => {
  it('is revoked at the worker, and its caller, who still waits, is told', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'mine' });
    queue.queue.do('cancel', 'mine', 'cancelled', null);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'mine', reason: 'cancelled' }]);
    expect(queue.broken).toMatchObject([{ reason: { code: 'cancelled', retryable: false } }]);
  });

  it('is broken off at its relay too when its caller is gone, which may wait there for the first byte', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'gone' });
    queue.queue.do('cancel', 'gone', 'caller_gone', null);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'gone', reason: 'caller_gone' }]);
    expect(queue.broken).toMatchObject([{ reason: { code: 'cancelled' } }]);
  });

  it('is rejected where it comes after its cancellation, for a minute', () => {
    const queue = new QueueHarness();
    expect(queue.queue.do('cancel', 'overtaken', 'caller_gone', null)).toBeNull();
    expect(queue.request({ job_id: 'overtaken', wait_for_worker_ms: 60_000 })).toMatchObject([
      { kind: 'refused', reason: 'cancelled' },
    ]);
    const worker = queue.worker('w');
    expect(worker.frames('job')).toEqual([]);
    queue.advance(61);
    queue.request({ job_id: 'overtaken' });
    expect(worker.lastJob()).toMatchObject({ job_id: 'overtaken' });
  });

  it('is rejected also where an earlier attempt under its id was there to be cancelled', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'again' });
    queue.queue.do('cancel', 'again', 'caller_gone', null);
    expect(queue.request({ job_id: 'again' })).toMatchObject([{ reason: 'cancelled' }]);
    expect(worker.frames('job')).toHaveLength(1);
  });

  it('is remembered among ten thousand', () => {
    const queue = new QueueHarness();
    queue.worker('w', { capacity: 2 });
    for (let n = 0; n <= 10_000; n += 1) queue.queue.do('cancel', `gone-${n}`, 'caller_gone', null);
    expect(queue.request({ job_id: 'gone-0' })).toMatchObject([{ kind: 'stream' }]);
    expect(queue.request({ job_id: 'gone-1' })).toMatchObject([{ reason: 'cancelled' }]);
  });

  it('ends what a worker still runs for it after a restart, whichever is heard first', () => {
    for (const isCancelledFirst of [true, false]) {
      const queue = new QueueHarness();
      queue.worker('w');
      queue.request({ job_id: 'c' });
      queue.restart();
      const jobs = [{ job_id: 'c', fence_token: 1 }];
      if (isCancelledFirst) queue.queue.do('cancel', 'c', 'caller_gone', null);
      const worker = queue.worker('w', { jobs });
      if (!isCancelledFirst) queue.queue.do('cancel', 'c', 'caller_gone', null);
      const revoked = worker.frames('registered').flatMap((frame) => frame.revoked as { job_id: string }[]);
      expect([...revoked, ...worker.frames('job_revoked')]).toMatchObject([{ job_id: 'c' }]);
      expect(queue.broken).toMatchObject([{ stream: 1, where: 'any home', reason: { code: 'cancelled' } }]);
      queue.request({ job_id: 'next' });
      expect(worker.lastJob().job_id).toBe('next');
    }
  });
});
