import { describe, expect, it } from 'vitest';
import { result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('dispatch', () => {
  it('pushes a job to a free worker of its pool in the event that submits it', () => {
    const queue = new QueueHarness();
    const other = queue.worker('other', { config_id: 'other' });
    const worker = queue.worker('w');
    const id = queue.job({
      payload: '{"messages":[{"role":"user","content":"hi"}],"seed":12345678901234567890}',
    });
    expect(queue.state(id)).toBe('leased');
    expect(other.frames('job')).toEqual([]);
    const job = worker.lastJob();
    expect(job).toMatchObject({
      job_id: id,
      mode: 'persisted',
      config_id: 'cfg',
      attempt: 1,
      lease_seconds: 30,
    });
    expect(job).not.toHaveProperty('stream_id');
  });

  it('keeps jobs that no worker can take and pushes them when one registers, highest priority first, then oldest', () => {
    const queue = new QueueHarness();
    const ids = [queue.job(), queue.job({ priority: 5 }), queue.job()];
    const worker = queue.worker('w');
    const order: string[] = [];
    for (let turn = 0; turn < 3; turn++) {
      order.push(worker.lastJob().job_id);
      queue.say(worker, result(worker.lastJob()));
    }
    expect(order).toEqual([ids[1], ids[0], ids[2]]);
  });

  it('never gives a worker more jobs than its capacity, and fills a slot in the event that frees it', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    for (let n = 0; n < 3; n++) queue.job();
    expect(worker.frames('job')).toHaveLength(2);
    queue.say(worker, result(worker.lastJob()));
    expect(worker.frames('job')).toHaveLength(3);
  });

  it('spreads jobs over workers, least loaded first', () => {
    const queue = new QueueHarness();
    const small = queue.worker('small', { capacity: 2 });
    const large = queue.worker('large', { capacity: 4 });
    queue.submit({}, {}, {});
    expect(small.frames('job')).toHaveLength(1);
    expect(large.frames('job')).toHaveLength(2);
  });

  it('raises the fence token with every dispatch, over restarts too', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    const first = worker.lastJob().fence_token;
    queue.restart();
    const again = queue.worker('w2');
    queue.job();
    expect(again.lastJob().fence_token).toBeGreaterThan(first);
  });

  it('sends nothing to a paused or draining worker, and again after resume but not after drain', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 8 });
    queue.say(worker, { type: 'pause' });
    queue.job();
    expect(worker.frames('job')).toHaveLength(0);
    queue.say(worker, { type: 'resume' });
    expect(worker.frames('job')).toHaveLength(1);
    queue.say(worker, { type: 'drain' });
    queue.say(worker, { type: 'resume' });
    queue.job();
    expect(worker.frames('job')).toHaveLength(1);
  });

  it('fills a slot that a cancellation frees, though a less loaded worker of the pool serves another model', () => {
    const queue = new QueueHarness();
    const alpha = queue.worker('a', { instance: { models: ['alpha'] } });
    const beta = queue.worker('b', { instance: { models: ['beta'] } });
    queue.submit({}, {});
    const answers = queue.request({ model: 'beta' });
    queue.queue.do('cancel', alpha.lastJob().job_id, 'cancelled', null);
    expect(answers).toEqual([]);
    queue.queue.do('cancel', beta.lastJob().job_id, 'cancelled', null);
    expect(answers).toMatchObject([{ kind: 'stream', worker_id: 'b' }]);
  });

  it('runs a waiting caller and persisted jobs in one order of priority and age', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.job();
    const stored = queue.job();
    queue.advance(1);
    const urgent = queue.request({ job_id: 'urgent', priority: 9 });
    const later = queue.request({ job_id: 'later' });
    const order: string[] = [];
    for (let turn = 0; turn < 3; turn++) {
      queue.say(worker, result(worker.lastJob()));
      order.push(worker.lastJob().job_id);
    }
    expect(order).toEqual(['urgent', stored, 'later']);
    expect([urgent[0]?.kind, later[0]?.kind]).toEqual(['stream', 'stream']);
  });
});
