import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

type Pushed = { job_id: string; fence_token: number };

const failed = ({ job_id, fence_token }: Pushed) => ({
  type: 'job_error',
  job_id,
  fence_token,
  error: 'no such thing',
  code: 'engine_refused',
  retryable: false,
});

it('a failed job is given out again under its id, with all its attempts', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job({ payload: '{"messages":["hi"]}' });
  const first = worker.lastJob();
  queue.say(worker, failed(first));
  expect(queue.state(id)).toBe('failed');
  expect(queue.queue.do('retry', id, null)).toMatchObject({
    ok: true,
    job: { id, state: 'pending', attempts: 0, error: null },
  });
  const second = worker.lastJob();
  expect(second).toMatchObject({ job_id: id, attempt: 1, payload: { messages: ['hi'] } });
  expect(second.fence_token).toBeGreaterThan(first.fence_token);
  queue.say(worker, {
    type: 'job_result',
    job_id: id,
    fence_token: first.fence_token,
    result: { late: true },
  });
  expect(worker.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
  queue.say(worker, {
    type: 'job_result',
    job_id: id,
    fence_token: second.fence_token,
    result: { value: 2 },
  });
  expect(queue.queue.read('get', id, null)).toMatchObject({
    state: 'succeeded',
    result: { value: 2 },
    attempt_errors: [],
  });
  const steps = queue.queue.read('ledger', id, null)!.steps.map(({ step, detail }) => [step, detail]);
  expect(steps).toEqual([
    ['submitted', null],
    ['dispatched', null],
    ['attempt_failed', 'engine_refused: no such thing; not tried again'],
    ['retried', 'it was failed: no such thing'],
    ['dispatched', null],
    ['settled', 'succeeded'],
    ['refused_stale', 'its token was 1'],
  ]);
});

it('an expired job gets as much time as it had, and is forgotten no earlier than any other', () => {
  const queue = new QueueHarness({ retention_seconds: 100 });
  const id = queue.job({ deadline_seconds: 60 });
  queue.advance(61);
  expect(queue.state(id)).toBe('expired');
  queue.advance(30);
  expect(queue.queue.do('retry', id, null)).toMatchObject({ ok: true });
  queue.advance(59);
  expect(queue.state(id)).toBe('pending');
  queue.advance(2);
  expect(queue.state(id)).toBe('expired');
  queue.advance(98);
  expect(queue.state(id)).toBe('expired');
  queue.advance(3);
  expect(queue.state(id)).toBe('missing');
});

it('counts among what is pending again, also after a restart', () => {
  const queue = new QueueHarness({ max_pending: 1 });
  const id = queue.job({ deadline_seconds: 1 });
  queue.advance(3);
  queue.queue.do('retry', id, null);
  expect(queue.queue.read('poolJobs', 'cfg')).toMatchObject({ in_queue: 1, failed: 1 });
  expect(queue.submit({})).toMatchObject([{ ok: false, reason: 'queue_full' }]);
  queue.restart();
  expect(queue.queue.read('poolJobs', 'cfg')).toMatchObject({ in_queue: 1, failed: 1 });
  expect(queue.worker('w').lastJob().job_id).toBe(id);
});

it.each(['succeeded', 'cancelled', 'pending', 'leased'])('a job that is %s is left as it is', (state) => {
  const queue = new QueueHarness();
  const worker = state === 'pending' ? null : queue.worker('w');
  const id = queue.job();
  if (state === 'succeeded') {
    const { fence_token } = worker!.lastJob();
    queue.say(worker!, { type: 'job_result', job_id: id, fence_token, result: {} });
  }
  if (state === 'cancelled') queue.queue.do('cancel', id, 'cancelled', null);
  expect(queue.queue.do('retry', id, null)).toEqual({ ok: false, state });
  expect(queue.state(id)).toBe(state);
});

it('another tenant’s job does not exist', () => {
  const queue = new QueueHarness();
  const id = queue.job({ tenant: 'a', deadline_seconds: 1 });
  queue.advance(3);
  expect(queue.queue.do('retry', id, 'b')).toBeNull();
  expect(queue.queue.do('retry', 'ghost', null)).toBeNull();
  expect(queue.queue.do('retry', id, 'a')).toMatchObject({ ok: true });
});
