import { describe, expect, it } from 'vitest';
import { failure, result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('settlement', () => {
  it('stores the result, acknowledges it, and acknowledges a repeat the same way', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const job = worker.lastJob();
    queue.say(worker, result(job));
    queue.say(worker, result(job, 2));
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'succeeded',
      result: { value: 1 },
      attempts: 1,
    });
    expect(worker.frames('ack').map((ack) => ack.outcome)).toEqual(['accepted', 'accepted']);
  });

  it('answers stale to an older fence and changes nothing', () => {
    const queue = new QueueHarness();
    const slow = queue.worker('slow');
    const id = queue.job();
    const first = slow.lastJob();
    queue.say(slow, { type: 'pause' });
    queue.advance(31);
    const quick = queue.worker('quick');
    queue.advance(2);
    const second = quick.lastJob();
    expect(second.job_id).toBe(id);
    queue.say(slow, result(first, 'old'));
    expect(slow.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    queue.say(quick, result(second, 'new'));
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'succeeded', result: { value: 'new' } });
  });

  it('does not let a worker settle another worker’s job even with the right token', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder');
    const id = queue.job();
    const thief = queue.worker('thief');
    queue.say(thief, result(holder.lastJob()));
    expect(thief.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    expect(queue.state(id)).toBe('leased');
  });

  it('lets only the last holder settle or resume a job that is pending again', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder');
    const id = queue.job();
    const job = holder.lastJob();
    queue.say(holder, failure(job, { retryable: true }));
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'pending', worker_id: null });
    const { job_id, fence_token } = job;
    const thief = queue.worker('thief', { config_id: 'other', jobs: [{ job_id, fence_token }] });
    expect(thief.frames('registered')[0]).toMatchObject({ resumed: [], revoked: [{ job_id }] });
    for (const frame of [result(job), failure(job)]) {
      queue.say(thief, frame);
      expect(thief.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    }
    expect(queue.state(id)).toBe('pending');
    queue.queue.do('cancel', id, 'cancelled', null);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'cancelled', worker_id: null });
    expect(holder.frames('job_revoked')).toEqual([]);
  });

  it('takes a late result while nobody else was given the job', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const job = worker.lastJob();
    queue.say(worker, { type: 'pause' });
    queue.advance(31);
    expect(queue.state(id)).toBe('pending');
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: id, reason: 'lease_lost' }]);
    queue.say(worker, result(job));
    expect(queue.state(id)).toBe('succeeded');
  });

  it('acknowledges a settlement of a job it never had as unknown', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.say(worker, result({ job_id: 'ghost', fence_token: 7 }));
    expect(worker.frames('ack')).toMatchObject([{ job_id: 'ghost', outcome: 'unknown' }]);
  });

  it('fails at once on a final error and keeps the engine’s own status and body', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const body = { error: { message: 'too long' } };
    queue.say(
      worker,
      failure(worker.lastJob(), { code: 'engine_refused', retryable: false, http_status: 400, body }),
    );
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'failed',
      attempts: 1,
      error: { message: 'it broke', http_status: 400, body, code: 'engine_refused' },
    });
  });

  it('tries a retryable failure again after a delay, and fails with every attempt’s error at the last', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 2 });
    queue.say(worker, failure(worker.lastJob(), { retryable: true, error: 'first' }));
    expect(queue.state(id)).toBe('pending');
    expect(worker.frames('job')).toHaveLength(1);
    queue.advance(2);
    expect(worker.lastJob()).toMatchObject({ job_id: id, attempt: 2 });
    queue.say(worker, failure(worker.lastJob(), { retryable: true, error: 'second' }));
    const view = queue.queue.read('get', id, null);
    expect(view?.state).toBe('failed');
    expect(view?.attempt_errors.map((error) => error.message)).toEqual(['first', 'second']);
  });
});
