import { describe, expect, it } from 'vitest';
import { result } from '../../support/job-frames.ts';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

type Pushed = { job_id: string; fence_token: number };
const decline = ({ job_id, fence_token }: Pushed) => ({
  type: 'job_release',
  job_id,
  fence_token,
  reason: 'deadline',
});
const load = (slots_free: number, more: object = {}) => ({
  type: 'load',
  running: 0,
  waiting: 0,
  kv_cache_usage: 0,
  slots_free,
  ...more,
});
const given = (worker: FakeConnection) => worker.frames('job').length;

describe('the load a worker reports', () => {
  it('bounds what it is given, each dispatch using one up and each end giving one back', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 8 });
    queue.job();
    queue.say(worker, load(2));
    for (let n = 0; n < 6; n++) queue.job();
    expect(given(worker)).toBe(3);
    queue.say(worker, result(worker.lastJob()));
    expect(given(worker)).toBe(4);
  });

  it('never goes above the capacity', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.say(worker, load(50));
    for (let n = 0; n < 5; n++) queue.job();
    expect(given(worker)).toBe(2);
  });

  it('stops a worker that takes none, and the next frame starts it in the same event', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.say(worker, load(0));
    queue.job();
    const waiting = queue.request();
    expect([given(worker), waiting.length]).toEqual([0, 0]);
    queue.say(worker, load(2));
    expect([given(worker), waiting.length]).toEqual([2, 1]);
  });

  it('is forgotten with the connection', () => {
    const queue = new QueueHarness();
    queue.say(queue.worker('w'), load(0));
    const back = queue.worker('w');
    queue.job();
    expect(given(back)).toBe(1);
  });
});

describe('a job whose deadline a worker cannot meet at its load', () => {
  it('goes to another worker at once, and not back to the one that declined it', () => {
    const queue = new QueueHarness();
    const [first, second] = [queue.worker('first'), queue.worker('second', { capacity: 0 })];
    const id = queue.job({ deadline_seconds: 60 });
    queue.say(second, { type: 'register', worker_id: 'second', config_id: 'cfg', capacity: 1, protocol: 1 });
    queue.say(first, decline(first.lastJob()));
    expect(second.lastJob().job_id).toBe(id);
    expect(given(first)).toBe(1);
    expect(queue.queue.read('get', id, null)).toMatchObject({
      attempts: 1,
      attempt_errors: [],
      worker_id: 'second',
    });
  });

  it('waits for a worker that has not declined it, while the other takes what comes after', () => {
    const queue = new QueueHarness();
    const [first, second] = [queue.worker('first'), queue.worker('second')];
    queue.submit({}, { id: 'tight', deadline_seconds: 60 });
    const holder = first.lastJob().job_id === 'tight' ? first : second;
    const busy = holder === first ? second : first;
    const next = queue.job();
    queue.say(holder, decline(holder.lastJob()));
    expect(holder.lastJob().job_id).toBe(next);
    expect(queue.state('tight')).toBe('pending');
    queue.say(busy, result(busy.lastJob()));
    expect(busy.lastJob().job_id).toBe('tight');
  });

  it('is offered to the same worker again when its load has eased', () => {
    const queue = new QueueHarness();
    queue.worker('busy');
    queue.job();
    const worker = queue.worker('w');
    const id = queue.job({ deadline_seconds: 60 });
    queue.say(worker, load(1, { waiting: 5 }));
    queue.say(worker, decline(worker.lastJob()));
    queue.say(worker, load(1, { waiting: 5 }));
    expect(queue.state(id)).toBe('pending');
    queue.say(worker, load(1, { waiting: 0 }));
    expect([queue.state(id), given(worker)]).toEqual(['leased', 2]);
  });

  it('stays pending when all decline, is offered again, says so, and expires at its deadline', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ deadline_seconds: 8 });
    queue.say(worker, decline(worker.lastJob()));
    expect(queue.state(id)).toBe('pending');
    expect(queue.queue.read('ledger', id, null)?.steps.at(-1)).toMatchObject({
      step: 'released',
      detail: expect.stringContaining('no connected worker can meet it'),
    });
    queue.advance(5);
    expect(given(worker)).toBe(2);
    queue.say(worker, decline(worker.lastJob()));
    queue.advance(4);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'expired', attempts: 0 });
  });

  it('is told at once to a caller when every worker for it has declined', () => {
    const queue = new QueueHarness();
    const [first, second] = [queue.worker('first'), queue.worker('second')];
    const call = { job_id: 'c', deadline_ms: 9000 };
    queue.request(call);
    const held = first.frames('job').length > 0 ? first : second;
    const other = held === first ? second : first;
    queue.say(held, decline(held.lastJob()));
    expect(queue.request(call)).toMatchObject([
      { kind: 'stream', worker_id: held === first ? 'second' : 'first' },
    ]);
    queue.say(other, decline(other.lastJob()));
    expect(queue.request(call)).toMatchObject([
      { kind: 'refused', reason: 'deadline', retry_after_seconds: expect.any(Number) },
    ]);
    expect(queue.queue.read('status')).toMatchObject({ running: 0, pending: 0 });
    expect(queue.request({ job_id: 'another' })).toMatchObject([{ kind: 'stream' }]);
  });

  it('is told at once also to a caller that was sent back before the worker declined', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'c', deadline_ms: 9000 });
    const again = queue.request({ job_id: 'c', deadline_ms: 8000 });
    expect(again).toEqual([]);
    queue.say(worker, decline(worker.lastJob()));
    expect(again).toMatchObject([{ kind: 'refused', reason: 'deadline' }]);
    expect(queue.queue.read('status')).toMatchObject({ running: 0, pending: 0 });
  });

  it('is told what is left of its deadline after it waited', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request();
    queue.request({ job_id: 'late', deadline_ms: 9000 });
    const never = queue.request({ job_id: 'never', deadline_ms: 3000 });
    queue.advance(4);
    expect(never).toMatchObject([{ kind: 'error', failure: { code: 'deadline' } }]);
    queue.say(worker, result(worker.lastJob()));
    expect(worker.lastJob()).toMatchObject({ job_id: 'late', deadline_ms: 5000 });
  });

  it('is rejected at its deadline while no worker is there, however long it would wait for one', () => {
    const queue = new QueueHarness();
    const waits = { wait_for_worker_ms: 60_000, wait_for_slot_ms: 60_000 };
    const hasty = queue.request({ job_id: 'hasty', ...waits, deadline_ms: 5000 });
    const waiting = queue.request({ job_id: 'waiting', ...waits, model: null });
    queue.advance(6);
    expect(hasty).toMatchObject([{ kind: 'error', failure: { code: 'deadline' } }]);
    expect(waiting).toEqual([]);
    expect(queue.queue.nextTick()).toBeGreaterThan(queue.nowMs);
  });
});
