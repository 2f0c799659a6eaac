import { expect, it } from 'vitest';
import { QueueHarness } from '../../support/queue-harness.ts';

const PAYLOAD = '{"messages":["a secret"]}';

function contentsOf(queue: QueueHarness, id: string) {
  return (['payload', 'result'] as const).map((kind) => queue.queue.read('contents', id, kind, null));
}

it('a settled job whose contents are erased keeps its row', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job({ payload: PAYLOAD });
  const { job_id, fence_token } = worker.lastJob();
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: { said: 'a secret' } });
  expect(contentsOf(queue, id)).toEqual([{ text: PAYLOAD }, { text: '{"said":"a secret"}' }]);
  const before = queue.queue.read('get', id, null)!;
  queue.queue.do('eraseContents', id);
  expect(contentsOf(queue, id)).toEqual([null, null]);
  const { result_text: _, ...view } = before;
  expect(queue.queue.read('get', id, null)).toEqual({ ...view, result: null });
  // A settlement that comes again is acknowledged, and brings nothing back.
  queue.say(worker, { type: 'job_result', job_id, fence_token, result: { said: 'a secret' } });
  expect(worker.frames('ack').at(-1)).toMatchObject({ job_id, outcome: 'accepted' });
  expect(contentsOf(queue, id)).toEqual([null, null]);
});

it('of the failures of a job whose contents are erased, only the codes and figures stay', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job({ payload: PAYLOAD, max_attempts: 2 });
  const fail = (more: object) => {
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_progress', job_id, fence_token, status_message: 'reads "a secret"' });
    queue.say(worker, { type: 'job_error', job_id, fence_token, error: 'cannot say "a secret"', ...more });
  };
  fail({ code: 'worker_error', retryable: true });
  queue.advance(1);
  const usage = { prompt_tokens: 3, completion_tokens: 1 };
  const body = { error: { message: 'a secret' } };
  fail({ code: 'engine_refused', retryable: false, http_status: 400, body, usage });
  const seen = () => [queue.queue.read('get', id, null)!, queue.queue.read('ledger', id, null)!] as const;
  const [before, steps] = seen();
  expect(JSON.stringify(before).split('a secret')).toHaveLength(7);
  expect(JSON.stringify(steps)).toContain('a secret');
  queue.queue.do('eraseContents', id);
  expect(JSON.stringify(seen())).not.toContain('a secret');
  expect(seen()[1].steps.map(({ step }) => step)).toEqual(steps.steps.map(({ step }) => step));
  const message = 'The words of this error were deleted with the contents of the job.';
  const last = { message, code: 'engine_refused', retryable: false, http_status: 400, usage };
  const [first, second] = before.attempt_errors;
  expect(seen()[0]).toEqual({
    ...before,
    status_message: null,
    error: last,
    attempt_errors: [
      { ...first, message },
      { ...last, ...{ attempt: 2, fence_token: second!.fence_token, worker_id: 'w', at: second!.at } },
    ],
  });
});

it('a job whose contents are erased is not tried again', () => {
  const queue = new QueueHarness();
  const worker = queue.worker('w');
  const id = queue.job({ payload: PAYLOAD });
  const { job_id, fence_token } = worker.lastJob();
  const failure = { error: 'no such thing', code: 'engine_refused', retryable: false };
  queue.say(worker, { type: 'job_error', job_id, fence_token, ...failure });
  queue.queue.do('eraseContents', id);
  expect(queue.queue.do('retry', id, null)).toEqual({ ok: false, state: 'failed', is_erased: true });
  expect(queue.queue.do('actOnJobs', 'retry', [id], null)).toBe(0);
});

it('a job that has not settled keeps its contents', () => {
  const queue = new QueueHarness();
  const id = queue.job({ payload: PAYLOAD });
  queue.queue.do('eraseContents', id);
  expect(contentsOf(queue, id)).toEqual([{ text: PAYLOAD }, null]);
  expect(queue.worker('w').lastJob()).toMatchObject({ payload: { messages: ['a secret'] } });
});
