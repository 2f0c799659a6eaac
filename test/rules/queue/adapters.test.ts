import { describe, expect, it } from 'vitest';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const NAMES = ['red', 'green', 'blue'];
const ids = (worker: FakeConnection) => worker.frames('job').map(({ job_id }) => job_id);

/** A worker that can load all of them. */
function loader(queue: QueueHarness, id: string, loaded: string[] = [], room = 2, more = {}): FakeConnection {
  return queue.worker(id, {
    capacity: 8,
    instance: { id, models: ['tiny', ...NAMES], boot_id: id },
    adapters: { names: NAMES, loaded, room, failed: [], ...more },
  });
}

function end(queue: QueueHarness, worker: FakeConnection, jobId: string): void {
  const job = worker.frames('job').find(({ job_id }) => job_id === jobId);
  const { fence_token } = job as { fence_token: number };
  queue.say(worker, { type: 'job_result', job_id: jobId, fence_token, result: {} });
}

describe('a request for an adapter', () => {
  it('goes where it is loaded, though another worker has less to do', () => {
    const queue = new QueueHarness();
    const one = loader(queue, 'one');
    const other = loader(queue, 'other', ['red']);
    queue.request({ job_id: 'base', model: 'tiny' });
    queue.request({ job_id: 'a', model: 'red' });
    queue.request({ job_id: 'b', model: 'red' });
    expect([ids(one), ids(other)]).toEqual([['base'], ['a', 'b']]);
  });

  it('goes where there is room rather than where another would have to go', () => {
    const queue = new QueueHarness();
    loader(queue, 'full', ['green', 'blue']);
    const roomy = loader(queue, 'roomy', ['green']);
    queue.request({ job_id: 'base', model: 'tiny' });
    queue.request({ job_id: 'base2', model: 'tiny' });
    queue.request({ job_id: 'a', model: 'red' });
    expect(ids(roomy)).toContain('a');
  });

  it('goes to a worker whose adapters are not all in use, and only for want of one to a busier', () => {
    const queue = new QueueHarness();
    const busy = loader(queue, 'busy', ['green', 'blue']);
    queue.request({ job_id: 'g', model: 'green' });
    queue.request({ job_id: 'b', model: 'blue' });
    const idle = loader(queue, 'idle', ['green', 'blue']);
    for (let n = 0; n < 5; n++) queue.request({ job_id: `t${n}`, model: 'tiny' });
    queue.request({ job_id: 'a', model: 'red' });
    expect(ids(idle)).toContain('a');
    queue.drop(idle);
    queue.request({ job_id: 'a2', model: 'red' });
    expect(ids(busy)).toContain('a2');
  });

  it('finds that what a worker was just given is loaded there', () => {
    const queue = new QueueHarness();
    const one = loader(queue, 'one');
    const other = loader(queue, 'other');
    queue.request({ job_id: 'a', model: 'red' });
    queue.request({ job_id: 'b', model: 'green' });
    queue.request({ job_id: 'a2', model: 'red' });
    queue.request({ job_id: 'b2', model: 'green' });
    expect([ids(one), ids(other)]).toEqual([
      ['a', 'a2'],
      ['b', 'b2'],
    ]);
  });

  it('is not kept to one worker while others idle', () => {
    const queue = new QueueHarness();
    const one = loader(queue, 'one', ['red']);
    const other = loader(queue, 'other');
    for (let n = 0; n < 10; n++) queue.request({ job_id: `a${n}`, model: 'red' });
    expect(ids(one).length).toBeGreaterThan(3);
    expect(ids(other).length).toBeGreaterThan(2);
  });

  it('leaves a slot to another that has its adapter there, and waits no longer than a few such', () => {
    const queue = new QueueHarness();
    const green = loader(queue, 'green', ['green'], 1);
    const red = loader(queue, 'red', ['red'], 1);
    for (let n = 0; n < 16; n++) queue.request({ job_id: `t${n}`, model: 'tiny' });
    queue.request({ job_id: 'r', model: 'red', wait_for_slot_ms: 60_000 });
    for (let n = 0; n < 12; n++) queue.request({ job_id: `g${n}`, model: 'green', wait_for_slot_ms: 60_000 });
    const first = ids(green)[0] as string;
    end(queue, green, first);
    expect(ids(green).at(-1)).toBe('g0');
    for (let n = 0; n < 8; n++) end(queue, green, ids(green).at(-1) as string);
    expect(ids(green)).toContain('r');
    expect(ids(red)).not.toContain('r');
  });

  it('goes where it failed only if it failed everywhere', () => {
    const queue = new QueueHarness();
    const failed = [{ name: 'red', reason: 'no such folder' }];
    const one = loader(queue, 'one', [], 2, { failed });
    const other = loader(queue, 'other');
    for (let n = 0; n < 4; n++) queue.request({ job_id: `a${n}`, model: 'red' });
    expect([ids(one), ids(other)]).toEqual([[], ['a0', 'a1', 'a2', 'a3']]);
    queue.drop(other);
    queue.request({ job_id: 'b', model: 'red' });
    expect(ids(one)).toEqual(['b']);
  });

  it('of a stored job goes where it is loaded, as the worker last told', () => {
    const queue = new QueueHarness();
    const one = loader(queue, 'one', ['red']);
    const other = loader(queue, 'other');
    queue.say(one, { type: 'adapters', names: NAMES, loaded: [], room: 2, failed: [] });
    queue.say(other, { type: 'adapters', names: NAMES, loaded: ['red'], room: 2, failed: [] });
    const [a, b] = [queue.job({ model: 'red' }), queue.job({ model: 'red' })];
    expect([ids(one), ids(other)]).toEqual([[], [a, b]]);
  });

  it('finds its worker after a hibernation of the queue', () => {
    const queue = new QueueHarness();
    const one = loader(queue, 'one');
    const other = loader(queue, 'other');
    queue.say(other, { type: 'adapters', names: NAMES, loaded: ['red'], room: 2, failed: [] });
    queue.hibernate();
    queue.request({ job_id: 'a', model: 'red' });
    queue.request({ job_id: 'b', model: 'red' });
    expect([ids(one), ids(other)]).toEqual([[], ['a', 'b']]);
  });

  it('for one that nobody lists is a request for an unknown model', () => {
    const queue = new QueueHarness();
    loader(queue, 'one');
    expect(queue.request({ job_id: 'a', model: 'violet' })).toMatchObject([
      { kind: 'refused', reason: 'unknown_model' },
    ]);
  });
});
