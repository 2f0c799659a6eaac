import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

/** What the simulation found. */

describe('what a job is charged for', () => {
  it('is not a frame that was lost with a connection both sides saw close', () => {
    const harness = new QueueHarness();
    const first = harness.worker('w');
    const id = harness.job();
    expect(harness.state(id)).toBe('leased');
    harness.drop(first);
    const second = harness.worker('w', { jobs: [] });
    expect(harness.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
    expect(second.lastJob()).toMatchObject({ job_id: id, attempt: 1 });
  });

  it('is a process that ended with it, as before', () => {
    const harness = new QueueHarness();
    harness.drop(harness.worker('w'));
    const id = harness.job();
    harness.drop(harness.worker('w'));
    harness.worker('w', { instance: { boot_id: 'another' }, jobs: [] });
    expect(harness.queue.read('get', id, null)?.attempt_errors).toMatchObject([{ code: 'worker_died' }]);
  });

  it('is one failure, however often the worker repeats it', () => {
    const harness = new QueueHarness();
    const first = harness.worker('w');
    const id = harness.job();
    const { fence_token } = first.lastJob();
    const failure = { type: 'job_error', job_id: id, fence_token, error: 'busy', retryable: true };
    harness.say(first, failure);
    harness.drop(first);
    // The acknowledgement was lost: the worker lists the job and says it again.
    const second = harness.worker('w', { jobs: [{ job_id: id, fence_token }] });
    harness.say(second, failure);
    expect(harness.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempts: 1 });
    expect(harness.queue.read('get', id, null)?.attempt_errors).toHaveLength(1);
  });

  it('is no lease that ran out because the queue itself was down', () => {
    const harness = new QueueHarness();
    harness.worker('w');
    const id = harness.job();
    harness.nowMs += 60_000;
    harness.restart();
    harness.advance(11);
    expect(harness.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('is no lease whose worker had lost its connection just before the queue was down', () => {
    const harness = new QueueHarness();
    const connection = harness.worker('w');
    const id = harness.job();
    const held = { job_id: id, fence_token: connection.lastJob().fence_token };
    harness.drop(connection);
    harness.advance(1);
    harness.nowMs += 8000;
    harness.restart();
    harness.advance(9);
    harness.worker('w', { jobs: [held] });
    expect(harness.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('is a lease whose worker could have dialled a queue that only hibernated', () => {
    const harness = new QueueHarness();
    harness.worker('other', { config_id: 'other' });
    const connection = harness.worker('w');
    const id = harness.job();
    harness.drop(connection);
    for (let seconds = 0; seconds < 12; seconds += 3) {
      harness.hibernate();
      harness.advance(3);
    }
    expect(harness.queue.read('get', id, null)?.attempt_errors).toMatchObject([{ code: 'lease_expired' }]);
  });

  it('is no lease that ran out because the queue told its workers that it restarts', () => {
    const harness = new QueueHarness();
    const connection = harness.worker('w');
    const id = harness.job();
    harness.queue.leave();
    harness.drop(connection);
    harness.nowMs += 60_000;
    harness.restart();
    harness.advance(11);
    expect(harness.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempts: 0 });
  });
});

describe('a slot', () => {
  it('is free again when its worker is told that the request was given to another', () => {
    const harness = new QueueHarness();
    const first = harness.worker('a');
    harness.request({ job_id: 'request' });
    const { fence_token } = first.lastJob();
    harness.worker('b');
    // The gateway lost the answer and asks again.
    harness.request({ job_id: 'request' });
    harness.say(first, { type: 'renew', jobs: [{ job_id: 'request', fence_token }] });
    expect(first.frames('renewed').at(-1)).toMatchObject({ lost: [{ job_id: 'request', fence_token }] });
    expect(harness.queue.read('status').running).toBe(1);
  });
});
