import { describe, expect, it } from 'vitest';
import { ELSEWHERE_WITHIN_MS, HEARD_WITHIN_MS } from '../../../src/queue/dispatch/retries.ts';
import type { EarlierAttempts, WaitingRequest } from '../../../src/queue/rpc.ts';
import { result } from '../../support/job-frames.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

const ids = (worker: FakeConnection) => worker.frames('job').map(({ job_id }) => job_id);

/** The gateway asks again: attempts failed at these workers. */
function again(...failed_at: string[]): Partial<WaitingRequest> {
  const earlier: EarlierAttempts = { attempts: failed_at.length, fence_token: 1, elapsed_ms: 5, failed_at };
  return { job_id: 'asked', earlier };
}

function fail(queue: QueueHarness, worker: FakeConnection): void {
  const { job_id, fence_token } = worker.lastJob();
  const error = { code: 'engine_error', retryable: true, error: 'out of memory' };
  queue.say(worker, { type: 'job_error', job_id, fence_token, ...error });
}

/** A request that failed at the worker `bad`, which is the less loaded one of two. */
function failedOnce({ hears = true, busy = false } = {}) {
  const queue = new QueueHarness();
  const bad = queue.worker('bad', { capacity: 4 });
  queue.request({ job_id: 'asked' });
  const good = queue.worker('good', { capacity: 4 });
  for (let n = 0; n < (busy ? 4 : 1); n++)
    queue.request({ job_id: `other-${n}`, earlier: again('bad').earlier! });
  if (hears) fail(queue, bad);
  return { queue, bad, good };
}

describe('a request whose attempt failed', () => {
  it.each([true, false])(
    'goes to another worker, though that has more to do (the queue knows: %s)',
    (hears) => {
      const { queue, bad, good } = failedOnce({ hears });
      queue.request(again('bad'));
      expect([ids(bad), ids(good)]).toEqual([['asked'], ['other-0', 'asked']]);
    },
  );

  it('goes to neither of two workers that failed it', () => {
    const { queue, bad, good } = failedOnce();
    const third = queue.worker('third', { capacity: 1 });
    queue.request(again('bad', 'good'));
    expect([ids(bad), ids(good), ids(third)]).toEqual([['asked'], ['other-0'], ['asked']]);
  });

  it('goes to another one when its answer is moved', () => {
    const { queue, bad, good } = failedOnce();
    const moved = { worker_id: 'bad', tokens: 1, kept: 2, why: 'it broke', moves: 1, failures: 1 };
    const times = { given_ms_ago: 9, first_token_ms_ago: 5, newest_first_token_ms_ago: 5 };
    queue.request({ job_id: 'asked', moved: { ...moved, ...times } });
    expect([ids(bad), ids(good)]).toEqual([['asked'], ['other-0', 'asked']]);
  });

  it('waits for a slot of another worker, and those behind it get those of the one that failed', () => {
    const { queue, bad, good } = failedOnce({ busy: true });
    queue.request(again('bad'));
    queue.request({ job_id: 'behind' });
    expect(ids(bad)).toEqual(['asked', 'behind']);
    queue.say(good, result(good.lastJob()));
    expect(ids(good).at(-1)).toBe('asked');
  });

  it('is tried at the one that failed when no slot of another is free for long', () => {
    const { queue, bad } = failedOnce({ busy: true });
    queue.request(again('bad'));
    queue.advance(ELSEWHERE_WITHIN_MS / 1000 - 0.1);
    expect(ids(bad)).toEqual(['asked']);
    queue.advance(1);
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });

  it('is tried there at once where its caller would be turned away otherwise', () => {
    const { queue, bad } = failedOnce({ busy: true });
    const answers = queue.request({ ...again('bad'), wait_for_slot_ms: 0 });
    expect(ids(bad)).toEqual(['asked', 'asked']);
    expect(answers).toMatchObject([{ kind: 'stream', worker_id: 'bad' }]);
  });

  it('goes to another worker with a free slot, however short its caller waits', () => {
    const { queue, bad, good } = failedOnce();
    queue.request({ ...again('bad'), wait_for_slot_ms: 0 });
    expect([ids(bad), ids(good)]).toEqual([['asked'], ['other-0', 'asked']]);
  });

  it('waits for the word of the worker where its caller does not wait for another one', () => {
    const { queue, bad } = failedOnce({ busy: true, hears: false });
    queue.request({ ...again('bad'), wait_for_slot_ms: ELSEWHERE_WITHIN_MS - 1 });
    expect(ids(bad)).toEqual(['asked']);
    fail(queue, bad);
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });

  it('is tried there in time where no word comes, though others wait longer', () => {
    const { queue, bad } = failedOnce({ busy: true, hears: false });
    queue.request({ job_id: 'short' });
    queue.request(again('bad'));
    queue.advance(0.5);
    queue.request({ ...again('bad'), job_id: 'short', wait_for_slot_ms: HEARD_WITHIN_MS + 100 });
    queue.advance(HEARD_WITHIN_MS / 1000);
    expect(ids(bad)).toEqual(['asked', 'short', 'short']);
  });

  it.each(['drain', 'pause'])('is tried there soon when the others take nothing any more (%s)', (type) => {
    const { queue, bad, good } = failedOnce({ busy: true });
    queue.request(again('bad'));
    queue.say(good, { type });
    queue.advance(1.1);
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });

  it('is tried there where others serve another model', () => {
    const { queue, bad, good } = failedOnce({ busy: true });
    queue.drop(good);
    queue.worker('other', { instance: { models: ['large'] } });
    queue.request(again('bad'));
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });
});

describe('a request whose attempt failed at the only worker', () => {
  function alone() {
    const queue = new QueueHarness();
    const bad = queue.worker('bad', { capacity: 4 });
    queue.request({ job_id: 'asked' });
    return { queue, bad };
  }

  it('is tried there again at once when the queue knows of the failure', () => {
    const { queue, bad } = alone();
    fail(queue, bad);
    queue.request(again('bad'));
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });

  it('is tried there again as soon as the queue hears of the failure', () => {
    const { queue, bad } = alone();
    queue.request(again('bad'));
    expect(ids(bad)).toEqual(['asked']);
    fail(queue, bad);
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });

  it('is tried there again where no word of it comes: only the relay was lost', () => {
    const { queue, bad } = alone();
    queue.request(again('bad'));
    queue.advance(HEARD_WITHIN_MS / 1000);
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });

  it('goes to a worker that comes meanwhile', () => {
    const { queue, bad } = alone();
    queue.request(again('bad'));
    const other = queue.worker('other');
    expect([ids(bad), ids(other)]).toEqual([['asked'], ['asked']]);
  });

  it('is tried there again at once after the worker had only released it', () => {
    const { queue, bad } = alone();
    const { job_id, fence_token } = bad.lastJob();
    queue.say(bad, { type: 'job_release', job_id, fence_token, reason: 'overloaded' });
    queue.request({
      job_id: 'asked',
      earlier: { attempts: 0, fence_token: 1, elapsed_ms: 5, failed_at: [] },
    });
    expect(ids(bad)).toEqual(['asked', 'asked']);
  });
});
