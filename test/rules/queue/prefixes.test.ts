import { describe, expect, it } from 'vitest';
import { PREFIX_MATCH_BOUNDS } from '../../../src/protocol/index.ts';
import { BLOCK_ENDS, type Prefix } from '../../../src/queue/rpc.ts';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

/** A prompt of so many blocks, of which the first ones are shared with others of the same `shared`. */
function prompt(own: number, length = 8, shared = { id: 0, length: 0 }, session = 0): Prefix {
  const hashes = Array.from({ length }, (_, at) => (at < shared.length ? shared.id : own) * 1000 + at + 1);
  return { session, bytes: BLOCK_ENDS[length - 1] ?? 0, hashes };
}

const ids = (worker: FakeConnection) => worker.frames('job').map(({ job_id }) => job_id);

function end(queue: QueueHarness, worker: FakeConnection, jobId: string, usage?: object): void {
  const job = worker.frames('job').find(({ job_id }) => job_id === jobId);
  const { fence_token } = job as { fence_token: number };
  queue.say(worker, { type: 'job_result', job_id: jobId, fence_token, result: {}, ...(usage && { usage }) });
}

describe('where a prompt goes', () => {
  it('is the worker that computed its beginning, though another has less to do', () => {
    const queue = new QueueHarness();
    const one = queue.worker('one', { capacity: 8 });
    const other = queue.worker('other', { capacity: 8 });
    queue.request({ job_id: 'a', prefix: prompt(1) });
    queue.request({ job_id: 'b', prefix: prompt(2) });
    expect([ids(one), ids(other)]).toEqual([['a'], ['b']]);
    queue.request({ job_id: 'a2', prefix: prompt(1, 12, { id: 1, length: 8 }) });
    queue.request({ job_id: 'a3', prefix: prompt(1, 14, { id: 1, length: 8 }) });
    queue.request({ job_id: 'b2', prefix: prompt(2, 9) });
    expect([ids(one), ids(other)]).toEqual([
      ['a', 'a2', 'a3'],
      ['b', 'b2'],
    ]);
  });

  it('is so for stored jobs too, after they waited', () => {
    const queue = new QueueHarness();
    const one = queue.worker('one', { capacity: 4 });
    const other = queue.worker('other', { capacity: 4 });
    const a = queue.job({ prefix: prompt(1) });
    const b = queue.job({ prefix: prompt(2) });
    const [b2, a2] = [queue.job({ prefix: prompt(2) }), queue.job({ prefix: prompt(1) })];
    expect([ids(one), ids(other)]).toEqual([
      [a, a2],
      [b, b2],
    ]);
  });

  it('is the least loaded worker where the match is short', () => {
    const queue = new QueueHarness();
    const one = queue.worker('one', { capacity: 8 });
    const other = queue.worker('other', { capacity: 8 });
    queue.request({ job_id: 'a', prefix: prompt(1, 8) });
    queue.request({ job_id: 'b', prefix: prompt(2, 30, { id: 1, length: 4 }) });
    expect([ids(one), ids(other)]).toEqual([['a'], ['b']]);
  });

  it('is everywhere soon for a beginning that all prompts have', () => {
    const queue = new QueueHarness();
    const workers = ['one', 'two', 'three', 'four'].map((id) => queue.worker(id, { capacity: 64 }));
    const system = { id: 9, length: 8 };
    for (let n = 0; n < 64; n++) queue.request({ job_id: `r${n}`, prefix: prompt(100 + n, 9, system) });
    const loads = workers.map((worker) => ids(worker).length);
    expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(3);
  });

  it('is where its conversation was, by the whole name of that', () => {
    const queue = new QueueHarness();
    const one = queue.worker('one', { capacity: 8 });
    const other = queue.worker('other', { capacity: 8 });
    const session = (id: number): Prefix => ({ session: id, bytes: 0, hashes: [] });
    queue.request({ job_id: 'a', prefix: session(1) });
    queue.request({ job_id: 'b', prefix: session(12) });
    queue.request({ job_id: 'b2', prefix: session(12) });
    queue.request({ job_id: 'a2', prefix: session(1) });
    queue.request({ job_id: 'a3', prefix: session(1) });
    expect([ids(one), ids(other)]).toEqual([
      ['a', 'a2', 'a3'],
      ['b', 'b2'],
    ]);
  });

  it('is forgotten with the process of a worker, not with its connection', () => {
    for (const [boot_id, expected] of [
      ['one-boot', ['a2']],
      ['another', []],
    ] as const) {
      const queue = new QueueHarness();
      const one = queue.worker('one', { capacity: 8 });
      queue.request({ job_id: 'a', prefix: prompt(1) });
      end(queue, one, 'a');
      queue.drop(one);
      queue.worker('other', { capacity: 8 });
      const again = queue.worker('one', { capacity: 8, instance: { boot_id } });
      queue.request({ job_id: 'a2', prefix: prompt(1) });
      expect(ids(again)).toEqual(expected);
    }
  });

  it('is forgotten with an engine that died', () => {
    const queue = new QueueHarness();
    const one = queue.worker('one', { capacity: 8 });
    queue.request({ job_id: 'a', prefix: prompt(1) });
    const { fence_token } = one.lastJob();
    queue.request({ job_id: 'b', prefix: prompt(1) });
    const other = queue.worker('other', { capacity: 8 });
    queue.say(one, { type: 'job_error', job_id: 'a', fence_token, error: 'gone', code: 'engine_died' });
    queue.request({ job_id: 'c', prefix: prompt(1) });
    expect(ids(other)).toEqual(['c']);
  });
});

describe('who gets a slot that frees', () => {
  /** Two full workers, warm for 1 and 2. */
  function full() {
    const queue = new QueueHarness();
    const one = queue.worker('one');
    const other = queue.worker('other');
    queue.request({ job_id: 'a', prefix: prompt(1) });
    queue.request({ job_id: 'b', prefix: prompt(2) });
    return { queue, one, other };
  }

  it('is the first that finds no warmer worker', () => {
    const { queue, one, other } = full();
    queue.request({ job_id: 'b2', prefix: prompt(2) });
    queue.request({ job_id: 'a2', prefix: prompt(1) });
    end(queue, one, 'a');
    expect(one.lastJob().job_id).toBe('a2');
    end(queue, other, 'b');
    expect(other.lastJob().job_id).toBe('b2');
  });

  it('is the first of all where everybody has a warmer one: no slot stays free', () => {
    const { queue, one } = full();
    queue.request({ job_id: 'b2', prefix: prompt(2) });
    queue.request({ job_id: 'b3', prefix: prompt(2) });
    end(queue, one, 'a');
    expect(one.lastJob().job_id).toBe('b2');
  });

  it('is a new prompt in its turn', () => {
    const { queue, one } = full();
    queue.request({ job_id: 'new', prefix: prompt(3) });
    queue.request({ job_id: 'a2', prefix: prompt(1) });
    end(queue, one, 'a');
    expect(one.lastJob().job_id).toBe('new');
  });

  it('is one that was passed over eight times', () => {
    const { queue, one } = full();
    queue.request({ job_id: 'b2', prefix: prompt(2) });
    for (let n = 0; n < 12; n++) queue.request({ job_id: `a${n}`, prefix: prompt(1) });
    end(queue, one, 'a');
    for (let n = 0; n < 8; n++) end(queue, one, one.lastJob().job_id);
    expect(ids(one).indexOf('b2')).toBe(9);
  });

  it('is nobody of a lower priority', () => {
    const { queue, one } = full();
    queue.request({ job_id: 'b2', prefix: prompt(2), priority: 1 });
    queue.request({ job_id: 'a2', prefix: prompt(1) });
    end(queue, one, 'a');
    expect(one.lastJob().job_id).toBe('b2');
  });
});

it('counts what was predicted beside what the engine saw', () => {
  const queue = new QueueHarness();
  const one = queue.worker('one', { capacity: 8 });
  queue.request({ job_id: 'a', prefix: prompt(1) });
  queue.request({ job_id: 'a2', prefix: prompt(1, 10, { id: 1, length: 8 }) });
  const usage = { prompt_tokens: 1000, completion_tokens: 1 };
  end(queue, one, 'a', usage);
  end(queue, one, 'a2', { ...usage, cached_tokens: 640 });
  const [pool] = queue.queue.read('metrics').pools;
  const predicted = Math.round((1000 * BLOCK_ENDS[7]!) / BLOCK_ENDS[9]!);
  expect(pool!.counts.prefix_hits).toEqual({ predicted, seen: 640 });
  const share = predicted / 1000;
  const [zero, ...others] = pool!.counts.prefix_match.counts;
  expect([zero, others[PREFIX_MATCH_BOUNDS.findIndex((bound) => bound >= share) - 1]]).toEqual([1, 1]);
  expect(pool!.counts.prefix_match.sum).toBeCloseTo(share);
  const steps = queue.queue.read('ledger', 'a2', null)!.steps;
  expect(steps.at(-1)!.detail).toContain(`cached: ${predicted} predicted, 640 seen`);
});
