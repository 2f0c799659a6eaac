import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

const TRACE = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'v=1' };

describe('the trace of a stored job', () => {
  it('goes to any extended worker, also after a restart of the queue', () => {
    const queue = new QueueHarness();
    queue.job({ trace: TRACE });
    queue.restart();
    expect(queue.worker('w').lastJob().trace).toMatchObject(TRACE);
  });

  it('does not reach a base worker', () => {
    const queue = new QueueHarness();
    queue.job({ trace: TRACE });
    expect(queue.baseWorker('w').lastJob()).not.toHaveProperty('trace');
  });

  it('comes with what spans are made of', () => {
    const queue = new QueueHarness();
    const id = queue.job({ trace: TRACE, max_attempts: 3 });
    queue.advance(5);
    const worker = queue.worker('w');
    const first = worker.lastJob();
    expect(first).toMatchObject({ attempt: 1, trace: { ...TRACE, queued_ms: 5000, attempts_left: 2 } });
    expect(first.trace).not.toHaveProperty('previous_fence');
    const failed = { job_id: id, fence_token: first.fence_token, error: 'died', retryable: true };
    queue.say(worker, { type: 'job_error', ...failed });
    queue.advance(10);
    expect(worker.lastJob()).toMatchObject({
      attempt: 2,
      trace: { attempts_left: 1, previous_fence: first.fence_token },
    });
  });
});

it('a repeated request says which attempt it is and what came before', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  queue.request({ job_id: 'r1' });
  expect(worker.lastJob()).toMatchObject({ attempt: 1, trace: { queued_ms: 0, attempts_left: 2 } });
  queue.say(worker, {
    type: 'job_error',
    job_id: 'r1',
    fence_token: worker.lastJob().fence_token,
    error: 'x',
  });
  queue.request({ job_id: 'r1', earlier: { attempts: 1, fence_token: 7, elapsed_ms: 900 } });
  expect(worker.lastJob()).toMatchObject({
    attempt: 2,
    trace: { queued_ms: 900, attempts_left: 1, previous_fence: 7 },
  });
});

it('a worker can read a job whose request was repeated after the clock was set back', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  queue.request({ earlier: { attempts: 1, fence_token: 7, elapsed_ms: -33_000 } });
  expect(worker.lastJob()).toMatchObject({ attempt: 2, trace: { queued_ms: 0 } });
});
