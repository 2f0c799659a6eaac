import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

const streaming = { job_type: 'engine_request', stream: true } as const;

/** A queue whose job streams, given to a worker that can. */
function dispatched() {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job(streaming);
  return { queue, worker, id, job: worker.lastJob() };
}

it('a stored job that streams names its stream in the frame and settles as any other', () => {
  const { queue, worker, id, job } = dispatched();
  expect(job).toMatchObject({ mode: 'persisted', stream_id: job.fence_token });
  queue.say(worker, { type: 'job_result', job_id: id, fence_token: job.fence_token, result: { value: 1 } });
  expect(queue.queue.read('get', id, null)).toMatchObject({
    state: 'succeeded',
    stream: true,
    result: { value: 1 },
  });
  expect(queue.broken).toEqual([]);
});

it('a base worker is given the job without a stream', () => {
  const queue = new QueueHarness();
  const worker = queue.baseWorker('w');
  const id = queue.job({ stream: true });
  const job = worker.lastJob();
  expect(job).not.toHaveProperty('stream_id');
  queue.say(worker, { type: 'job_result', job_id: id, fence_token: job.fence_token, result: {} });
  expect(queue.state(id)).toBe('succeeded');
});

it('a job that does not stream is given no stream, and a repeat with another `stream` is the same job', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job({ job_type: 'engine_request' });
  expect(worker.lastJob()).not.toHaveProperty('stream_id');
  expect(queue.submit({ ...streaming, id })).toMatchObject([
    { ok: true, created: false, job: { id, stream: false } },
  ]);
});

it('the queue remembers over a restart that a job streams', () => {
  const queue = new QueueHarness();
  const id = queue.job(streaming);
  queue.restart();
  const worker = queue.worker('w');
  expect(worker.lastJob()).toMatchObject({ job_id: id, stream_id: worker.lastJob().fence_token });
});

it.each([
  ['its lease runs out', (queue: QueueHarness) => queue.advance(33), 'lease_expired'],
  [
    'it is cancelled',
    (queue: QueueHarness, id: string) => queue.queue.do('cancel', id, 'cancelled', null),
    'cancelled',
  ],
])('those who watch are told when %s', (_, end, code) => {
  const { queue, id, job } = dispatched();
  end(queue, id);
  expect(queue.broken).toMatchObject([{ worker: 'w', stream: job.stream_id, reason: { code } }]);
});

it('whoever follows a job hears of every attempt and of the end', () => {
  const queue = new QueueHarness();
  const id = queue.job(streaming);
  const heard: (object | null)[] = [];
  const follow = (fence: number) =>
    queue.queue.wait('follow', id, fence, 60_000, null, (followed) => heard.push(followed));
  follow(0);
  expect(heard).toEqual([]);
  const worker = queue.worker('w');
  const first = worker.lastJob();
  expect(heard).toMatchObject([
    { job: { state: 'leased', fence_token: first.fence_token }, live: { worker_id: 'w' } },
  ]);
  follow(first.fence_token);
  expect(heard).toHaveLength(1);
  const error = { type: 'job_error', job_id: id, error: 'it broke', code: 'engine_died', retryable: true };
  queue.say(worker, { ...error, fence_token: first.fence_token });
  queue.advance(5);
  const second = worker.lastJob();
  expect(second.fence_token).toBeGreaterThan(first.fence_token);
  expect(heard).toMatchObject([{}, { job: { state: 'leased', fence_token: second.fence_token } }]);
  follow(second.fence_token);
  queue.say(worker, {
    type: 'job_result',
    job_id: id,
    fence_token: second.fence_token,
    result: { value: 2 },
  });
  expect(heard).toMatchObject([{}, {}, { job: { state: 'succeeded', result: { value: 2 } }, live: null }]);
});
