import { describe, expect, it } from 'vitest';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { QueueHarness } from '../../support/queue-harness.ts';
import { usage } from '../../support/usage-bench.ts';

/** Of the first attempt: its caller was given four of the five. */
const FIRST = { prompt_tokens: 10, completion_tokens: 5 };
const MOVED = {
  ...{ worker_id: 'first', tokens: 4, kept: 14, why: 'the engine died', moves: 1, failures: 1 },
  ...{ given_ms_ago: 9000, first_token_ms_ago: 8500, newest_first_token_ms_ago: 8500 },
};
/** Of the whole answer, as the worker tells that ends it. */
const WHOLE = { prompt_tokens: 10, completion_tokens: 9 };

function end(queue: QueueHarness, worker: FakeConnection, frame: object): void {
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { job_id, fence_token, ...frame });
}

describe('usage of an answer that moved', () => {
  it('wastes of an attempt that failed only what its caller was not given', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    queue.request({ job_id: 'a' });
    end(queue, first, {
      type: 'job_error',
      error: 'gone',
      code: 'engine_died',
      retryable: true,
      usage: FIRST,
    });
    queue.drop(first);
    const other = queue.worker('other');
    queue.request({ job_id: 'a', moved: MOVED });
    end(queue, other, { type: 'job_result', result: {}, usage: WHOLE });
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 10, output: 9, wasted: 1 }]);
  });

  it('is so for an attempt that only its worker goes on with', () => {
    const queue = new QueueHarness();
    const lost = queue.worker('first');
    queue.request({ job_id: 'a' });
    const { fence_token } = lost.lastJob();
    queue.drop(lost);
    queue.advance(11);
    const other = queue.worker('other');
    queue.request({ job_id: 'a', moved: MOVED });
    end(queue, other, { type: 'job_result', result: {}, usage: WHOLE });
    const back = queue.worker('first', { jobs: [{ job_id: 'a', fence_token }] });
    queue.say(back, { type: 'job_result', job_id: 'a', fence_token, result: {}, usage: FIRST });
    expect(usage(queue)).toMatchObject([{ requests: 1, succeeded: 1, input: 10, output: 9, wasted: 1 }]);
  });

  it('is so after a restart, whenever the worker is heard', () => {
    for (const heard of ['before the gateway asks', 'before the answer ends', 'after the answer']) {
      const queue = new QueueHarness();
      const first = queue.worker('first');
      queue.request({ job_id: 'a' });
      const { fence_token, account } = first.lastJob();
      queue.restart();
      const back = queue.worker('first', { jobs: [{ job_id: 'a', fence_token }] });
      const other = queue.worker('other');
      const error = { type: 'job_error', error: 'gone', code: 'engine_died', retryable: true };
      const ends = () => queue.say(back, { ...error, job_id: 'a', fence_token, account, usage: FIRST });
      if (heard === 'before the gateway asks') ends();
      queue.request({ job_id: 'a', moved: MOVED });
      if (heard === 'before the answer ends') ends();
      end(queue, other, { type: 'job_result', result: {}, usage: WHOLE });
      if (heard === 'after the answer') ends();
      expect(usage(queue), heard).toMatchObject([
        { requests: 1, succeeded: 1, input: 10, output: 9, wasted: 1 },
      ]);
    }
  });
});
