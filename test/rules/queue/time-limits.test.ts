import { describe, expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

/** Requests of callers that give a time limit, or have one by their route. */
describe('a time limit', () => {
  it('ends what runs, at its worker and at its caller, and says where the time went', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.request({ job_id: 'first' });
    queue.request({ job_id: 'limited', limit_ms: 5000 });
    queue.advance(2);
    const first = worker.lastJob();
    queue.say(worker, { type: 'job_result', job_id: 'first', fence_token: first.fence_token, result: {} });
    const job = worker.lastJob();
    expect(job).toMatchObject({ job_id: 'limited' });
    // It must not be declined because an estimate says that it may take longer.
    expect(job.deadline_ms).toBeUndefined();
    queue.advance(2.9);
    expect(queue.broken).toEqual([]);
    queue.advance(0.2);
    expect(queue.broken).toMatchObject([
      {
        stream: job.stream_id,
        reason: {
          code: 'deadline',
          retryable: false,
          message: expect.stringMatching(/waited 2\.\d s for a slot and ran [23]\.\d s on worker w/),
        },
      },
    ]);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'limited', reason: 'deadline' }]);
    expect(queue.request()).toMatchObject([{ kind: 'stream' }]);
  });

  it('ends what waits', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    queue.request();
    const limited = queue.request({ limit_ms: 4000 });
    const withDeadline = queue.request({ deadline_ms: 4000 });
    queue.advance(3.9);
    expect([limited, withDeadline]).toEqual([[], []]);
    queue.advance(0.2);
    const failure = {
      code: 'deadline',
      message: expect.stringMatching(/waited 4\.\d s for a slot and got none/),
    };
    expect([limited, withDeadline]).toMatchObject([
      [{ kind: 'error', failure }],
      [{ kind: 'error', failure }],
    ]);
  });

  it('ends what a worker of the base protocol runs', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const limited = queue.request({ model: 'cfg', limit_ms: 3000 });
    expect(worker.frames('job')).toHaveLength(1);
    queue.advance(3.1);
    expect(limited).toMatchObject([
      { kind: 'error', failure: { code: 'deadline', message: expect.stringContaining('on worker old') } },
    ]);
    expect(worker.frames('job_revoked')).toHaveLength(1);
  });
});

it('the jobs of callers that wait are told in the order in which they get a slot', () => {
  const queue = new QueueHarness();
  queue.worker('w');
  for (const job_id of ['running', 'second', 'third']) queue.request({ job_id, model: 'tiny' });
  queue.request({ job_id: 'urgent', model: 'tiny', priority: 5 });
  expect(queue.queue.read('waitingLines')).toEqual([{ job_ids: ['urgent', 'second', 'third'], start: null }]);
});

it('what a caller calls its request stands in the ledger of its job', () => {
  const queue = new QueueHarness();
  queue.worker('w');
  queue.request({ job_id: 'j', request_id: 'mine' });
  expect(queue.queue.read('ledger', 'j', null)?.steps[0]).toMatchObject({
    step: 'submitted',
    detail: 'request mine',
  });
});
