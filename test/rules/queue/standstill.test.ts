import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

/** The process stands still, or its clock jumps forward: on waking, timers run before frames are read. */
function standStill(queue: QueueHarness, seconds: number, first: 'alarm' | 'tick'): void {
  const tick = queue.queue.nextTick();
  queue.nowMs += seconds * 1000;
  if (first === 'tick' && tick !== null) queue.queue.onTick(tick);
  const setFor = queue.alarmAt;
  queue.alarmAt = null;
  queue.queue.onAlarm(setFor);
}

const renewal = ({ job_id, fence_token }: { job_id: string; fence_token: number }) => ({
  type: 'renew',
  jobs: [{ job_id, fence_token }],
});

describe('a queue that stood still', () => {
  it.each([33, 3600])('for %i s charges no job whose worker renewed it meanwhile', (seconds) => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const id = queue.job({ max_attempts: 1 });
    standStill(queue, seconds, 'alarm');
    queue.say(worker, renewal(worker.lastJob()));
    queue.advance(25);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('for a little while counts that to no lease', () => {
    const queue = new QueueHarness({ lease_seconds: 4 });
    const worker = queue.worker('w', { capacity: 2 });
    queue.job({ config_id: 'other', deadline_seconds: 5 });
    const id = queue.job({ max_attempts: 1 });
    queue.advance(3.5);
    queue.say(worker, renewal(worker.lastJob()));
    standStill(queue, 4.5, 'alarm');
    queue.advance(3);
    queue.say(worker, renewal(worker.lastJob()));
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('counts a job that it gave away just before from when it goes on', () => {
    const queue = new QueueHarness({ lease_seconds: 4 });
    const worker = queue.worker('w', { capacity: 2 });
    queue.job();
    queue.advance(0.5);
    const id = queue.job({ max_attempts: 1 });
    // Its frame leaves, with the commit, when the queue goes on.
    standStill(queue, 4.2, 'alarm');
    queue.advance(3.3);
    queue.say(worker, renewal(worker.lastJob()));
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('until just after a lease ran out reads what lies in the sockets before it judges', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    standStill(queue, 30.5, 'alarm');
    queue.say(worker, renewal(worker.lastJob()));
    queue.advance(25);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('gives a worker whose socket broke meanwhile the whole grace', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    const { fence_token } = worker.lastJob();
    standStill(queue, 60, 'alarm');
    queue.drop(worker);
    queue.advance(9);
    queue.worker('w', { jobs: [{ job_id: id, fence_token }] });
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('gives a worker that was gone already a grace anew', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    const { fence_token } = worker.lastJob();
    queue.drop(worker);
    standStill(queue, 60, 'alarm');
    queue.advance(9);
    queue.worker('w', { jobs: [{ job_id: id, fence_token }] });
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('does the same when its process was ended in the middle', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    const { fence_token } = worker.lastJob();
    queue.drop(worker);
    queue.nowMs += 60_000;
    queue.restart();
    queue.advance(9);
    queue.worker('w', { jobs: [{ job_id: id, fence_token }] });
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('closes no socket before it has read the pings in it', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    worker.goSilent();
    standStill(queue, 60, 'tick');
    worker.heardMs = null;
    queue.advance(5);
    expect(worker.closed).toBeNull();
  });

  it('closes no socket of a worker whose next ping is still to come', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    worker.goSilent();
    standStill(queue, 480, 'alarm');
    queue.advance(14);
    worker.goSilent();
    queue.advance(14);
    expect(worker.closed).toBeNull();
  });

  it('closes the sockets of workers that stay silent', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    worker.goSilent();
    standStill(queue, 480, 'alarm');
    queue.advance(37);
    expect(worker.closed).toMatchObject({ reason: 'nothing heard for two ping periods' });
  });

  it('and restarts a moment later charges no job whose worker is not back yet', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    worker.goSilent();
    standStill(queue, 480, 'alarm');
    queue.advance(2);
    queue.queue.leave();
    queue.nowMs += 3000;
    queue.restart();
    queue.advance(15);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempt_errors: [] });
  });

  it('keeps callers whose worker finished meanwhile, and ends deadlines a moment later', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ deadline_seconds: 20 });
    const waiting = queue.request({ wait_for_slot_ms: 30_000 });
    const { job_id, fence_token } = worker.lastJob();
    standStill(queue, 40, 'tick');
    expect(waiting).toEqual([]);
    queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
    expect(queue.state(id)).toBe('succeeded');
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
  });

  it('still finds the workers that died meanwhile', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    const [leased, expired] = [queue.job({ max_attempts: 1 }), queue.job({ deadline_seconds: 20 })];
    standStill(queue, 60, 'alarm');
    queue.advance(2);
    expect(queue.state(expired)).toBe('expired');
    queue.advance(40);
    expect(queue.queue.read('get', leased, null)?.attempt_errors).toMatchObject([{ code: 'lease_expired' }]);
  });
});
