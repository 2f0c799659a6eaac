import { describe, expect, it } from 'vitest';
import { streamIdOf } from '../../../src/protocol/index.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('callers that wait', () => {
  it('are dispatched at once to a relay and a stream', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [answer] = queue.request({ job_id: 'c', deadline_ms: 9000 });
    const job = worker.lastJob();
    expect(answer).toMatchObject({
      kind: 'stream',
      stream_id: job.stream_id,
      fence_token: job.fence_token,
    });
    expect(job).toMatchObject({
      job_id: 'c',
      mode: 'transient',
      job_type: 'engine_request',
      deadline_ms: 9000,
    });
  });

  it('have a stream whose id says which process passes it on', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [answer] = queue.request({ job_id: 'c', home: 3 });
    const { fence_token } = worker.lastJob();
    const stream_id = streamIdOf(fence_token, 3);
    expect(worker.lastJob()).toMatchObject({ stream_id });
    expect(answer).toMatchObject({ kind: 'stream', stream_id });
    queue.queue.do('cancel', 'c', 'caller_gone', null);
    expect(queue.broken).toMatchObject([{ stream: stream_id }]);
  });

  it('are refused with the models there are, or told to come back, or wait as long as they say', () => {
    const queue = new QueueHarness();
    expect(queue.request({ model: 'tiny' })).toMatchObject([{ reason: 'unknown_model' }]);
    expect(queue.request({ model: null })).toMatchObject([{ reason: 'no_worker' }]);
    const worker = queue.worker('w');
    expect(queue.request({ model: 'huge' })).toMatchObject([
      { reason: 'unknown_model', message: expect.stringContaining('models: tiny') },
    ]);
    queue.drop(worker);
    queue.advance(11);
    const [refused] = queue.request({ model: 'tiny' });
    expect(refused).toMatchObject({ reason: 'no_worker', retry_after_seconds: 5 });
    const waiting = queue.request({ model: 'tiny', wait_for_worker_ms: 30_000 });
    const hasty = queue.request({ model: 'tiny', wait_for_worker_ms: 3000 });
    queue.advance(4);
    expect([waiting.length, hasty.length]).toEqual([0, 1]);
    queue.worker('w2');
    expect(waiting).toMatchObject([{ kind: 'stream', worker_id: 'w2' }]);
  });

  it('wait for a worker that lost its connection as long as it may be back, not for one that left', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request();
    const [before, hasty] = [queue.request(), queue.request({ wait_for_slot_ms: 1000 })];
    const { job_id, fence_token } = worker.lastJob();
    queue.drop(worker);
    const during = queue.request();
    queue.advance(2);
    expect([before, hasty, during]).toMatchObject([[], [{ reason: 'no_worker' }], []]);
    const back = queue.worker('w', { jobs: [{ job_id, fence_token }] });
    queue.say(back, { type: 'job_result', job_id, fence_token, result: {} });
    expect(before).toMatchObject([{ kind: 'stream' }]);
    queue.drop(back);
    queue.advance(13);
    expect(during).toMatchObject([{ reason: 'no_worker' }]);

    const leaving = queue.worker('leaving');
    queue.say(leaving, { type: 'drain' });
    queue.drop(leaving);
    expect(queue.request()).toMatchObject([{ reason: 'no_worker' }]);
  });

  it('wait so too for a worker that was connected when the queue ended, not for one with a cordon', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    queue.restart();
    const [waiting, other] = [queue.request(), queue.request({ model: 'huge' })];
    expect([waiting, other]).toMatchObject([[], [{ reason: 'unknown_model' }]]);
    queue.worker('w');
    expect(waiting).toMatchObject([{ kind: 'stream', worker_id: 'w' }]);
    queue.restart();
    const late = queue.request();
    queue.advance(11);
    expect(late).toMatchObject([{ reason: 'no_worker' }]);
    queue.worker('w');
    queue.queue.do('cordon', ['w']);
    queue.restart();
    expect(queue.request()).toMatchObject([{ reason: 'no_worker' }]);
  });

  it('wait for a slot, and hear it when none becomes free', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request();
    const waiting = queue.request({ wait_for_slot_ms: 60_000 });
    const hasty = queue.request({ wait_for_slot_ms: 1000 });
    queue.advance(2);
    expect(hasty).toMatchObject([{ reason: 'no_slot' }]);
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
  });

  it('free their slot when they hang up, waiting or running', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'running' });
    const waiting = queue.request({ job_id: 'waiting' });
    const last = queue.request({ job_id: 'last' });
    queue.queue.do('cancel', 'waiting', 'caller_gone', null);
    expect(waiting).toMatchObject([{ reason: 'cancelled' }]);
    queue.queue.do('cancel', 'running', 'caller_gone', null);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'running', reason: 'caller_gone' }]);
    expect(last).toMatchObject([{ kind: 'stream' }]);
  });

  it('hear through their relay when the worker does not come back or comes back without their job', () => {
    const queue = new QueueHarness();
    const gone = queue.worker('gone');
    queue.request();
    const { stream_id } = gone.lastJob();
    queue.drop(gone);
    queue.advance(13);
    expect(queue.broken).toMatchObject([{ worker: 'gone', stream: stream_id, reason: { retryable: true } }]);
    const worker = queue.worker('w');
    queue.request();
    queue.worker('w');
    expect(queue.broken.at(-1)).toMatchObject({ worker: 'w', stream: worker.lastJob().stream_id });
    expect(queue.queue.read('status')).toMatchObject({ running: 0, pending: 0 });
  });

  it('that ask again before their broken attempt is settled take one slot, not two', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    queue.request({ job_id: 'c' });
    const broken = first.lastJob();
    const second = queue.worker('second');
    queue.request({ job_id: 'c' });
    expect(second.lastJob().job_id).toBe('c');
    queue.say(first, { type: 'job_error', job_id: 'c', fence_token: broken.fence_token, error: 'broke' });
    expect(queue.queue.read('status')).toMatchObject({ running: 1 });
    expect(queue.state(queue.job())).toBe('leased');
    expect(second.frames('job_revoked')).toEqual([]);
  });

  it('that ask again and get another worker stop their older attempt, whose slot is filled', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    queue.request({ job_id: 'c' });
    const second = queue.worker('second', { capacity: 2 });
    queue.job();
    queue.request({ job_id: 'c' });
    expect(second.lastJob().job_id).toBe('c');
    expect(first.frames('job_revoked')).toMatchObject([{ job_id: 'c', reason: 'superseded' }]);
    expect(second.frames('job_revoked')).toEqual([]);
    expect(queue.queue.read('status').running).toBe(2);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('that ask again and get the same worker have one attempt there, which nothing revokes', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.request({ job_id: 'c' });
    const [again] = queue.request({ job_id: 'c' });
    expect(again).toMatchObject({ kind: 'stream', fence_token: worker.lastJob().fence_token });
    expect(worker.frames('job_revoked')).toEqual([]);
    expect(queue.queue.read('status').running).toBe(1);
  });

  it('keep their slot with a worker that lists them after a restart of the queue', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'c' });
    const { fence_token } = worker.lastJob();
    queue.restart();
    const back = queue.worker('w', { jobs: [{ job_id: 'c', fence_token }] });
    const id = queue.job();
    expect(queue.state(id)).toBe('pending');
    queue.say(back, { type: 'job_result', job_id: 'c', fence_token, result: {} });
    expect(queue.state(id)).toBe('leased');
    queue.advance(1);
    expect(back.frames('ack')).toMatchObject([{ outcome: 'accepted' }]);
  });

  it('keep their worker when the queue restarts and hibernates before they are answered', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'c' });
    const jobs = [{ job_id: 'c', fence_token: worker.lastJob().fence_token }];
    queue.restart();
    const back = queue.worker('w', { jobs });
    queue.hibernate();
    queue.say(back, { type: 'renew', jobs });
    expect(back.frames('renewed').at(-1)).toMatchObject({ lost: [] });
  });

  it('may leave the model out when there is one, and are asked for it when there are several', () => {
    const queue = new QueueHarness();
    queue.worker('a', { capacity: 4 });
    expect(queue.request({ model: 'default' })).toMatchObject([{ kind: 'stream' }]);
    queue.worker('b', { config_id: 'cfg-b', instance: { models: ['beta'] } });
    expect(queue.request({ model: null })).toMatchObject([
      { reason: 'ambiguous_model', message: 'name a model, there are several: tiny, beta' },
    ]);
  });

  it('cost no statement from their request to its settlement', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    // Tokens come in blocks: the first one reserves one.
    queue.request();
    const before = queue.statements;
    queue.request();
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
    expect(queue.statements - before).toBe(0);
  });
});
