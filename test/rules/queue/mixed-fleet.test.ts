import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

describe('a base worker beside one that takes any job', () => {
  const responses = {
    job_type: 'engine_request',
    payload: JSON.stringify({ path: '/v1/responses', body: '{"input":"a"}' }),
  };

  it('leaves what it cannot run to the other, also while that one is busy', () => {
    const queue = new QueueHarness();
    const base = queue.baseWorker('old', 'cfg', 4);
    const other = queue.worker('new', { capacity: 1 });
    const finish = () => {
      const { job_id, fence_token } = other.lastJob();
      queue.say(other, { type: 'job_result', job_id, fence_token, result: { status: 'success' } });
    };
    queue.request({ job_id: 'first', model: 'cfg', ...responses });
    const second = queue.request({ job_id: 'second', model: 'cfg', ...responses });
    queue.job({ id: 'stored', ...responses });
    expect(other.frames('job')).toMatchObject([{ job_id: 'first' }]);
    expect([base.frames('job'), second]).toEqual([[], []]);
    finish();
    finish();
    expect(new Set(other.frames('job').map(({ job_id }) => job_id))).toEqual(
      new Set(['first', 'second', 'stored']),
    );
    expect(base.frames('job')).toEqual([]);
  });

  it('still gets what it can run', () => {
    const queue = new QueueHarness();
    const base = queue.baseWorker('old', 'cfg', 4);
    queue.worker('new', { capacity: 1 });
    for (const id of ['a', 'b', 'c']) queue.job({ id });
    expect(base.frames('job')).toHaveLength(2);
  });

  it('answers with what it cannot when the other is gone', () => {
    const queue = new QueueHarness();
    queue.baseWorker('old', 'cfg', 4);
    const other = queue.worker('new', { capacity: 1 });
    queue.job({ id: 'busy' });
    queue.job({ id: 'busy too' });
    queue.request({ job_id: 'first', model: 'cfg', ...responses });
    const answers = queue.request({ job_id: 'second', model: 'cfg', ...responses });
    expect(answers).toEqual([]);
    queue.drop(other);
    expect(answers).toMatchObject([{ kind: 'error', failure: { code: 'unsupported_by_worker' } }]);
  });
});
