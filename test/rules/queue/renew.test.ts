import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('a renewal', () => {
  it('keeps a lease that is renewed, and names one that is lost', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    for (let turn = 0; turn < 5; turn++) {
      queue.advance(24);
      queue.say(worker, { type: 'renew', jobs: [{ job_id: id, fence_token }] });
    }
    expect(queue.state(id)).toBe('leased');
    expect(queue.queue.read('get', id, null)?.attempt_errors).toEqual([]);
    queue.say(worker, { type: 'renew', jobs: [{ job_id: id, fence_token: fence_token - 1 }] });
    expect(worker.frames('renewed').map((frame) => frame.lost)).toEqual([
      ...[[], [], [], [], []],
      [{ job_id: id, fence_token: fence_token - 1 }],
    ]);
  });

  it('keeps no job that another worker holds, stored or with a caller that waits', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder', { capacity: 2 });
    const stored = queue.job();
    const { fence_token: ofStored } = holder.lastJob();
    queue.request({ job_id: 'waits' });
    const { fence_token: ofWaiting } = holder.lastJob();
    const jobs = [
      { job_id: stored, fence_token: ofStored },
      { job_id: 'waits', fence_token: ofWaiting },
    ];
    const thief = queue.worker('thief');
    queue.say(thief, { type: 'renew', jobs });
    expect(thief.frames('renewed')[0]).toMatchObject({ lost: jobs });
    queue.say(holder, { type: 'renew', jobs });
    expect(holder.frames('renewed')[0]).toMatchObject({ lost: [] });
  });
});
