import { describe, expect, it } from 'vitest';
import { result } from '../../support/job-frames.ts';
import { type FakeConnection, QueueHarness } from '../../support/queue-harness.ts';

function release(worker: FakeConnection): object {
  const { job_id, fence_token } = worker.lastJob();
  return { type: 'job_release', job_id, fence_token, reason: 'draining' };
}

/** Steps with their times in ms after `from`. */
function told(queue: QueueHarness, id: string, from: number): unknown[][] {
  const { steps } = queue.queue.read('ledger', id, null)!;
  return steps.map(({ at, step, attempt, worker_id }) => [Date.parse(at) - from, step, attempt, worker_id]);
}

describe('the ledger of an answer that moves', () => {
  it('tells when each worker gave the first token of its part, also one that was killed', () => {
    const queue = new QueueHarness();
    const from = queue.nowMs;
    const killed = queue.worker('killed');
    const moved = (worker_id: string, moves: number, newest_first_token_ms_ago: number) => ({
      ...{ worker_id, tokens: 4, kept: 14, why: 'it died', moves, failures: 1 },
      ...{ given_ms_ago: 9000, first_token_ms_ago: 8000, newest_first_token_ms_ago },
    });
    queue.request({ job_id: 'a' });
    queue.advance(9);
    queue.drop(killed);
    const leaves = queue.worker('leaves');
    queue.request({ job_id: 'a', moved: moved('killed', 1, 8000) });
    queue.advance(5);
    queue.say(leaves, { type: 'drain' });
    queue.say(leaves, release(leaves));
    queue.request({ job_id: 'a', moved: moved('leaves', 2, 3000) });
    // No worker was there in time: the gateway asks once more.
    queue.request({ job_id: 'a', moved: moved('leaves', 2, 3000) });
    const last = queue.worker('last');
    queue.advance(2);
    queue.say(last, { ...result(last.lastJob()), timing: { first_token_ms: 500 } });
    expect(told(queue, 'a', from).filter(([, step]) => step !== 'disconnected')).toEqual([
      [0, 'submitted', 0, null],
      [0, 'dispatched', 1, 'killed'],
      [1000, 'first_token', 1, 'killed'],
      [9000, 'moved', 1, null],
      [9000, 'dispatched', 2, 'leaves'],
      [11_000, 'first_token', 2, 'leaves'],
      [14_000, 'released', 2, 'leaves'],
      [14_000, 'moved', 2, null],
      [14_000, 'dispatched', 3, 'last'],
      [14_500, 'first_token', 3, 'last'],
      [16_000, 'settled', 3, 'last'],
    ]);
  });

  it('tells it of a stored job too, whose worker says it as it releases the job', () => {
    const queue = new QueueHarness();
    const from = queue.nowMs;
    const leaves = queue.worker('leaves');
    const id = queue.job();
    queue.advance(5);
    queue.worker('last');
    queue.say(leaves, { type: 'drain' });
    const partial = { prompt_tokens: 1, ids: [1, 2], role: 'assistant', text: 'Once', logprobs: null };
    const timing = { started_ms: 100, first_token_ms: 1000 };
    queue.say(leaves, { ...release(leaves), partial, timing });
    expect(told(queue, id, from)).toEqual([
      [0, 'submitted', 0, null],
      [0, 'dispatched', 1, 'leaves'],
      [100, 'started', 1, 'leaves'],
      [1000, 'first_token', 1, 'leaves'],
      [5000, 'released', 1, 'leaves'],
      [5000, 'moved', 1, 'leaves'],
      [5000, 'dispatched', 1, 'last'],
    ]);
  });

  it('tells it of a stored job whose worker was lost, by what that told with a renewal', () => {
    const queue = new QueueHarness();
    const from = queue.nowMs;
    const lost = queue.worker('lost');
    const id = queue.job();
    const { fence_token } = lost.lastJob();
    queue.advance(5);
    const part = { after: 0, prompt_tokens: 1, ids: [1, 2], role: 'assistant', text: 'Once', logprobs: null };
    const timing = { started_ms: 100, first_token_ms: 1000 };
    queue.say(lost, { type: 'renew', jobs: [{ job_id: id, fence_token, part, timing }] });
    queue.drop(lost);
    queue.advance(20);
    queue.worker('last');
    expect(told(queue, id, from).map(([, ...step]) => step)).toEqual([
      ['submitted', 0, null],
      ['dispatched', 1, 'lost'],
      ['started', 1, 'lost'],
      ['first_token', 1, 'lost'],
      ['disconnected', 1, 'lost'],
      ['lease_expired', 1, 'lost'],
      ['moved', 1, 'lost'],
      ['dispatched', 2, 'last'],
    ]);
  });
});
