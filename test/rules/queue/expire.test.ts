import { describe, expect, it } from 'vitest';
import { failure } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('a lease', () => {
  it('gives a job to another worker when its lease runs out, charging the attempt', () => {
    const queue = new QueueHarness();
    queue.worker('silent');
    const id = queue.job();
    const other = queue.worker('other');
    queue.advance(33);
    expect(other.lastJob()).toMatchObject({ job_id: id, attempt: 2 });
    expect(queue.queue.read('get', id, null)?.attempt_errors).toMatchObject([
      { code: 'lease_expired', worker_id: 'silent' },
    ]);
  });

  it('gives every lease one grace after a restart of the queue, and only one', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    const id = queue.job();
    queue.nowMs += 3_600_000;
    queue.restart();
    queue.advance(9);
    queue.restart();
    expect(queue.state(id)).toBe('leased');
    queue.advance(3);
    expect(queue.state(id)).toBe('pending');
  });
});

describe('a deadline', () => {
  it('expires a job at its deadline, pending or leased', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [leased, pending] = [queue.job({ deadline_seconds: 5 }), queue.job({ deadline_seconds: 5 })];
    expect(worker.lastJob().deadline_ms).toBe(5000);
    queue.advance(6);
    expect([queue.state(leased), queue.state(pending)]).toEqual(['expired', 'expired']);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: leased, reason: 'deadline' }]);
  });

  it('expires a job uncharged also when its worker tells of the deadline before the alarm does', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ deadline_seconds: 5 });
    queue.nowMs += 5000;
    queue.say(worker, failure(worker.lastJob(), { code: 'deadline', retryable: false }));
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'expired',
      attempts: 1,
      attempt_errors: [],
      worker_id: 'w',
      error: { code: 'deadline', retryable: false },
    });
    expect(worker.frames('ack')).toMatchObject([{ outcome: 'accepted' }]);
    expect(worker.frames('job_revoked')).toEqual([]);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('fails a job that has no deadline whatever its worker calls the error', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.say(worker, failure(worker.lastJob(), { code: 'deadline', retryable: false }));
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'failed', attempts: 1 });
  });
});
