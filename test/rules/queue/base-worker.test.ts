import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

/** Workers that speak only the base tell little; what they leave out must hold nobody up. */

describe('a caller that waits for a base worker', () => {
  it('is to ask again when the worker is back on a new connection, since its answer may be lost', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const answers = queue.call({ job_id: 'c', model: 'cfg' });
    queue.drop(worker);
    queue.advance(2);
    expect(answers).toEqual([]);
    const back = queue.baseWorker('old');
    expect(answers).toMatchObject([{ kind: 'error', failure: { code: 'worker_died', retryable: true } }]);
    const again = queue.call({ job_id: 'c', model: 'cfg' });
    expect(back.lastJob().job_id).toBe('c');
    queue.say(back, { type: 'job_result', job_id: 'c', fence_token: 0, result: { completion: 1 } });
    expect(again).toMatchObject([{ kind: 'result', result: { completion: 1 } }]);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('asks again too when the queue did not see the older connection close', () => {
    const queue = new QueueHarness();
    queue.baseWorker('old');
    const answers = queue.call({ model: 'cfg' });
    queue.baseWorker('old');
    expect(answers).toMatchObject([{ kind: 'error', failure: { retryable: true } }]);
  });

  it('goes on waiting when the worker registers again on the same connection', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const answers = queue.call({ job_id: 'c', model: 'cfg' });
    queue.say(worker, { type: 'register', worker_id: 'old', config_id: 'cfg', capacity: 2 });
    expect(answers).toEqual([]);
    queue.say(worker, { type: 'job_result', job_id: 'c', fence_token: 0, result: {} });
    expect(answers).toMatchObject([{ kind: 'result' }]);
  });

  it('hears of its deadline, of which the worker knows nothing', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const answers = queue.call({ job_id: 'c', model: 'cfg', deadline_ms: 60_000 });
    const next = queue.job();
    queue.advance(59);
    expect(answers).toEqual([]);
    queue.advance(4);
    expect(answers).toMatchObject([{ kind: 'error', failure: { code: 'deadline', retryable: false } }]);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'c', reason: 'deadline' }]);
    expect(worker.lastJob().job_id).toBe(next);
  });
});

describe('a base worker that let a lease run out', () => {
  it('and said nothing all the while loses its socket, and gets jobs again when it dials again', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    queue.drop(worker);
    // Its result was ready while it had no connection: it dropped it.
    const back = queue.baseWorker('old');
    back.goSilent();
    queue.advance(299);
    expect([back.closed, queue.state(id)]).toEqual([null, 'leased']);
    queue.advance(2);
    expect(back.closed).toMatchObject({ code: 1001 });
    const again = queue.baseWorker('old');
    queue.advance(2);
    expect(again.lastJob()).toMatchObject({ job_id: id });
    expect(queue.queue.get(id)?.attempt_errors).toMatchObject([{ code: 'lease_expired' }]);
  });

  it('and never comes back costs one attempt, not all of them', () => {
    const queue = new QueueHarness();
    const gone = queue.baseWorker('gone');
    gone.goSilent();
    const id = queue.job();
    queue.advance(900);
    expect(queue.queue.get(id)).toMatchObject({ state: 'pending', attempts: 1 });
  });

  it('but spoke of another job keeps its socket and gets more', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const [lost, renewed] = [queue.job(), queue.job()];
    worker.goSilent();
    queue.advance(200);
    queue.say(worker, { type: 'job_progress', job_id: renewed, fence_token: 0 });
    worker.goSilent();
    queue.advance(102);
    expect([worker.closed, queue.state(renewed)]).toEqual([null, 'leased']);
    expect(worker.lastJob().job_id).toBe(lost);
    expect(worker.frames('job')).toHaveLength(3);
  });
});
