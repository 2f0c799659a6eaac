import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

/** Two pings of 15 s, and what the third may be late. */
const LIMIT_S = 35;

describe('a worker whose network is gone without a word', () => {
  it('is told how often to ping', () => {
    const queue = new QueueHarness({ ping_seconds: 4 });
    expect(queue.worker('w').frames('registered')[0]).toMatchObject({ ping_seconds: 4 });
  });

  it('loses its socket after two pings while it holds a stored job, and has the grace to come back', () => {
    const queue = new QueueHarness({ lease_seconds: 300 });
    const worker = queue.worker('w');
    const id = queue.job();
    queue.advance(100);
    expect(worker.closed).toBeNull();
    worker.goSilent();
    queue.advance(LIMIT_S - 1);
    expect(worker.closed).toBeNull();
    queue.advance(2);
    expect(worker.closed).toMatchObject({ code: 1001 });
    expect(queue.state(id)).toBe('leased');
    const back = queue.worker('w', { jobs: [{ job_id: id, fence_token: worker.lastJob().fence_token }] });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [id] });
    queue.advance(60);
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'leased',
      attempt_errors: [],
      worker_id: 'w',
    });
  });

  it('is waited for as long as callers wait for the queue, where its gateway process is out of reach', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.drop(worker, true);
    queue.advance(29);
    const back = queue.worker('w', { jobs: [{ job_id: id, fence_token: worker.lastJob().fence_token }] });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [id] });
    queue.drop(back, true);
    const other = queue.worker('other');
    queue.advance(29);
    expect(other.frames('job')).toEqual([]);
    queue.advance(12);
    expect(other.lastJob().job_id).toBe(id);
  });

  it('gives its job to another when it does not come back', () => {
    const queue = new QueueHarness({ lease_seconds: 300 });
    const worker = queue.worker('w');
    const id = queue.job();
    worker.goSilent();
    const other = queue.worker('other');
    queue.advance(LIMIT_S + 12);
    expect(other.lastJob().job_id).toBe(id);
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'leased',
      worker_id: 'other',
      attempts: 2,
    });
  });

  it('is given no job that would only wait for its lease, though nobody looked at it while the queue slept', () => {
    const queue = new QueueHarness();
    const silent = queue.worker('a');
    const alive = queue.worker('b');
    silent.goSilent();
    // Nothing to look at before the fleet is told that it is still connected.
    expect(queue.alarmAt).toBeGreaterThan(queue.nowMs + 3_600_000);
    queue.nowMs += 3_600_000;
    queue.job();
    const waiting = queue.job();
    expect(silent.frames('job')).toEqual([]);
    expect(silent.closed).toMatchObject({ code: 1001 });
    expect(alive.frames('job')).toHaveLength(1);
    expect(queue.state(waiting)).toBe('pending');
  });

  it('breaks the answers of callers that wait for it, so that they are tried elsewhere', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    expect(queue.request()[0]).toMatchObject({ kind: 'stream' });
    worker.goSilent();
    queue.advance(LIMIT_S + 1);
    expect(worker.closed).toMatchObject({ code: 1001 });
    queue.advance(12);
    expect(queue.broken).toMatchObject([{ worker: 'w', reason: { retryable: true } }]);
  });

  it('stays forgotten over a hibernation, although its closed socket is still listed', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    worker.goSilent();
    queue.nowMs += 60_000;
    const id = queue.job();
    expect(worker.closed).not.toBeNull();
    queue.hibernate();
    expect(queue.queue.read('sessions')).toEqual([]);
    expect(queue.fleet.workers()).toMatchObject([
      { worker_id: 'w', disconnected: { reason: 'nothing heard for two ping periods' } },
    ]);
    expect(queue.state(id)).toBe('pending');
  });
});

describe('a worker whose heartbeats are late at an idle queue', () => {
  it('loses its socket if its pings have stopped too', () => {
    const queue = new QueueHarness();
    const silent = queue.worker('silent');
    const alive = queue.worker('alive');
    silent.goSilent();
    queue.nowMs += (LIMIT_S - 1) * 1000;
    queue.queue.do('closeSilent', ['silent', 'alive', 'nobody']);
    expect(silent.closed).toBeNull();
    queue.nowMs += 1000;
    queue.queue.do('closeSilent', ['silent', 'alive', 'nobody']);
    expect(silent.closed).toMatchObject({ code: 1001 });
    expect(alive.closed).toBeNull();
    expect(
      queue.fleet.workers().map(({ worker_id, disconnected }) => [worker_id, disconnected?.reason]),
    ).toEqual([
      ['alive', undefined],
      ['silent', 'nothing heard for two ping periods'],
    ]);
  });

  it('loses its socket after a whole lease of silence if it is a base worker, and keeps its jobs until then', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    worker.goSilent();
    queue.nowMs += 299_000;
    queue.queue.do('closeSilent', ['old']);
    expect([worker.closed, queue.state(id)]).toEqual([null, 'leased']);
    queue.nowMs += 1000;
    queue.queue.do('closeSilent', ['old']);
    expect(worker.closed).toMatchObject({ code: 1001 });
  });
});

describe('a silent base worker', () => {
  it('keeps its socket: its pings are answered elsewhere, its lease alone tells', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    worker.goSilent();
    queue.advance(200);
    expect(worker.closed).toBeNull();
    expect(queue.state(id)).toBe('leased');
  });
});
