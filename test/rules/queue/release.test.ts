import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('a release', () => {
  it('spends no attempt on a release', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    for (let turn = 0; turn < 5; turn++) {
      const { job_id, fence_token } = worker.lastJob();
      queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'overloaded' });
      queue.advance(2);
    }
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'leased',
      attempts: 1,
      attempt_errors: [],
    });
  });

  it('hands a job released by a draining worker to another one in the same event', () => {
    const queue = new QueueHarness();
    const leaving = queue.worker('leaving');
    const id = queue.job();
    const staying = queue.worker('staying');
    queue.say(leaving, { type: 'drain' });
    const { job_id, fence_token } = leaving.lastJob();
    queue.say(leaving, { type: 'job_release', job_id, fence_token, reason: 'draining' });
    expect(staying.lastJob().job_id).toBe(id);
  });

  it('of a worker whose machine is taken away says so in the ledger', () => {
    const queue = new QueueHarness();
    const leaving = queue.worker('leaving');
    const id = queue.job();
    queue.say(leaving, { type: 'drain', reason: 'preempted' });
    expect(queue.queue.read('sessions')).toMatchObject([{ state: 'draining', preempted: true }]);
    const { job_id, fence_token } = leaving.lastJob();
    queue.say(leaving, { type: 'job_release', job_id, fence_token, reason: 'draining' });
    expect(
      queue.queue.read('ledger', id, null)!.steps.map(({ step, detail }) => [step, detail]),
    ).toContainEqual(['released', 'draining: its machine is being taken away']);
  });

  it('follows the connection of a machine that is taken away: stored jobs go on at once, uncharged', () => {
    const queue = new QueueHarness();
    const leaving = queue.worker('leaving');
    const id = queue.job({ max_attempts: 1 });
    const staying = queue.worker('staying');
    queue.say(leaving, { type: 'drain' });
    queue.say(leaving, { type: 'drain', reason: 'preempted' });
    queue.drop(leaving);
    expect(staying.lastJob().job_id).toBe(id);
    expect(queue.queue.read('get', id, null)).toMatchObject({ attempts: 1, attempt_errors: [] });
  });

  it('follows the lease of a machine that is taken away without a word, and another process in its place', () => {
    for (const end of ['silence', 'another process']) {
      const queue = new QueueHarness();
      const leaving = queue.worker('leaving', { instance: { id: 'leaving', boot_id: 'first' } });
      const id = queue.job({ max_attempts: 1 });
      const staying = queue.worker('staying');
      queue.say(leaving, { type: 'drain', reason: 'preempted' });
      if (end === 'silence') queue.advance(40);
      else queue.worker('leaving', { capacity: 0, instance: { id: 'leaving', boot_id: 'second' } });
      expect(staying.lastJob().job_id).toBe(id);
      expect(queue.queue.read('get', id, null)).toMatchObject({ attempts: 1, attempt_errors: [] });
    }
  });

  it('is not believed of a reason for a drain that this version does not know', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.say(worker, { type: 'drain', reason: 'of a later version' as 'preempted' });
    expect(queue.queue.read('sessions')).toMatchObject([{ state: 'draining' }]);
    expect(queue.queue.read('sessions')[0]).not.toHaveProperty('preempted');
  });

  it('counts only from the worker that holds the job, with the token of its attempt', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder', { capacity: 2 });
    const stored = queue.job();
    const ofStored = holder.lastJob();
    queue.request({ job_id: 'waits' });
    const ofWaiting = holder.lastJob();
    const thief = queue.worker('thief', { capacity: 0 });
    for (const { job_id, fence_token } of [ofStored, ofWaiting]) {
      queue.say(thief, { type: 'job_release', job_id, fence_token, reason: 'draining' });
      queue.say(holder, { type: 'job_release', job_id, fence_token: fence_token + 100, reason: 'draining' });
    }
    expect(queue.state(stored)).toBe('leased');
    expect(queue.queue.read('status')).toMatchObject({ running: 2, pending: 0 });
  });

  it('of a request whose answer a relay carries ends its attempt: the gateway asks again', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'waits' });
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'overloaded' });
    expect(queue.queue.read('status')).toMatchObject({ running: 0, pending: 0 });
    expect(queue.broken).toEqual([]);
    expect(queue.request({ job_id: 'waits' })).toMatchObject([{ kind: 'stream' }]);
  });
});
