import { describe, expect, it } from 'vitest';
import type { PoolStart } from '../../../src/fleet/rpc.ts';
import { result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** Stored jobs of a pool whose workers serve different models. */

const CHANGED: PoolStart = {
  config_id: 'cfg',
  names: ['before', 'after'],
  state: 'starting',
  progress: null,
  text: 'starting a worker',
  wait_ms: 300_000,
  retry_after_seconds: 30,
  outdated: ['old'],
};
const serving = (model: string, capacity = 1) => ({ instance: { models: [model] }, capacity });

describe('a stored job that names a model', () => {
  it('goes to the worker of its pool that serves it, however busy that is, and waits for its slot', () => {
    const queue = new QueueHarness();
    const [a, b] = [queue.worker('a', serving('a', 4)), queue.worker('b', serving('b'))];
    const ids = [queue.job({ model: 'b' }), queue.job({ model: 'b' }), queue.job({ model: 'a' })];
    expect(a.frames('job').map(({ job_id }) => job_id)).toEqual([ids[2]]);
    expect(b.frames('job').map(({ job_id }) => job_id)).toEqual([ids[0]]);
    queue.say(b, result(b.lastJob()));
    expect(b.lastJob().job_id).toBe(ids[1]);
    expect(a.frames('job')).toHaveLength(1);
  });

  it.each<[string, object]>([
    ['of a caller', {}],
    ['of a batch', { priority: -10 }],
  ])('and is %s holds up no other job of its pool', (_whose, more) => {
    const queue = new QueueHarness();
    const a = queue.worker('a', serving('a', 4));
    const b = queue.worker('b', serving('b'));
    queue.job({ model: 'b', ...more });
    const held = queue.job({ model: 'b', ...more });
    const others = [queue.job({ model: 'a', priority: -10 }), queue.job({ config_id: 'cfg' })];
    expect(a.frames('job').map(({ job_id }) => job_id)).toEqual(others);
    expect([b.frames('job').length, queue.state(held)]).toEqual([1, 'pending']);
  });

  it('waits for the first worker that serves it while its pool is changed', () => {
    const queue = new QueueHarness();
    queue.fleet.starts = [CHANGED];
    queue.queue.do('takeStarts', [CHANGED]);
    const old = queue.worker('old', serving('before', 4));
    const [after, before] = [queue.job({ model: 'after' }), queue.job({ model: 'before' })];
    expect(old.frames('job').map(({ job_id }) => job_id)).toEqual([before]);
    queue.advance(20);
    expect(queue.state(after)).toBe('pending');
    const fresh = queue.worker('new', serving('after', 4));
    expect(fresh.lastJob().job_id).toBe(after);
    // And the other way round, while the one before is there.
    const late = queue.job({ model: 'before' });
    expect(old.lastJob().job_id).toBe(late);
  });

  it('waits so where the queue hears of the change only with the job', () => {
    const queue = new QueueHarness();
    queue.fleet.starts = [CHANGED];
    const old = queue.worker('old', serving('before', 4));
    const job = queue.job({ model: 'after', config_id: undefined });
    expect([queue.state(job), old.frames('job').length]).toEqual(['pending', 0]);
  });

  it('is given to those that are left once nobody serves it, who say what is wrong', () => {
    const queue = new QueueHarness({ reconnect_grace_seconds: 10 });
    const a = queue.worker('a', serving('a', 4));
    const b = queue.worker('b', serving('b'));
    queue.job({ model: 'b' });
    const left = queue.job({ model: 'b' });
    queue.drop(b);
    queue.advance(5);
    expect([queue.state(left), a.frames('job').length]).toEqual(['pending', 0]);
    queue.advance(15);
    expect(a.frames('job').map(({ job_id }) => job_id)).toContain(left);
  });

  it('is for any worker of its pool where none serves it, or they do not tell', () => {
    const queue = new QueueHarness();
    const a = queue.worker('a', serving('a', 4));
    expect(a.frames('job')).toEqual([]);
    const id = queue.job({ model: 'unknown' });
    expect(a.lastJob().job_id).toBe(id);
    const silent = new QueueHarness();
    const tellsNothing = silent.worker('s', { capacity: 4, instance: { models: [] } });
    silent.worker('b', serving('b'));
    silent.job({ model: 'b' });
    const next = silent.job({ model: 'b' });
    expect([tellsNothing.frames('job').length, silent.state(next)]).toEqual([1, 'leased']);
  });
});
