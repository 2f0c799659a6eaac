import { describe, expect, it } from 'vitest';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

const given = (worker: FakeConnection) => worker.frames('job').length;
const done = (worker: FakeConnection) => {
  const { job_id, fence_token } = worker.lastJob();
  return { type: 'job_result', job_id, fence_token, result: {} };
};

describe('a cordoned worker', () => {
  it('gets no more jobs, stored or of a caller, and finishes what it runs', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const id = queue.job();
    expect(queue.queue.do('cordon', ['w', 'x'])).toEqual({ w: 1, x: 0 });
    queue.job();
    const answers = queue.request({ wait_for_worker_ms: 60_000 });
    expect([given(worker), answers.length]).toEqual([1, 0]);
    queue.say(worker, done(worker));
    expect(queue.state(id)).toBe('succeeded');
    expect(given(worker)).toBe(1);
    expect(queue.queue.do('cordon', ['w'])).toEqual({ w: 0 });
    const [shown] = queue.queue.read('sessions');
    expect(shown).toMatchObject({ worker_id: 'w', state: 'draining' });
    expect(shown).not.toHaveProperty('drains_itself');
    queue.say(worker, { type: 'drain' });
    expect(queue.queue.read('sessions')).toMatchObject([{ state: 'draining', drains_itself: true }]);
  });

  it('takes what waits as soon as it is taken back', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.queue.do('cordon', ['w']);
    queue.job();
    expect(given(worker)).toBe(0);
    queue.queue.do('cordon', []);
    expect(given(worker)).toBe(1);
    expect(queue.queue.read('sessions')).toMatchObject([{ state: 'ready' }]);
  });

  it('stays cordoned when it connects again, and when the queue has restarted or slept', () => {
    const queue = new QueueHarness();
    queue.queue.do('cordon', ['w']);
    const first = queue.worker('w');
    queue.job();
    queue.hibernate();
    queue.job();
    queue.restart();
    const second = queue.worker('w');
    queue.job();
    expect([given(first), given(second)]).toEqual([0, 0]);
    expect(given(queue.worker('other', { capacity: 8 }))).toBe(3);
  });

  it('is left out of the answer until it is back after a restart, or its grace is over', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.worker('x');
    queue.request();
    const { job_id, fence_token } = worker.lastJob();
    queue.restart();
    expect(queue.queue.do('cordon', ['w', 'x', 'never'])).toEqual({ never: 0 });
    const back = queue.worker('w', { jobs: [{ job_id, fence_token }] });
    expect(queue.queue.do('cordon', ['w', 'x'])).toEqual({ w: 1 });
    queue.say(back, { type: 'job_result', job_id, fence_token, result: {} });
    queue.advance(11);
    expect(queue.queue.do('cordon', ['w', 'x'])).toEqual({ w: 0, x: 0 });
  });

  it('counts what it holds while it is not connected', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    queue.drop(worker);
    expect(queue.queue.do('cordon', ['w'])).toEqual({ w: 1 });
  });
});
