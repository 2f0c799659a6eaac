import { describe, expect, it } from 'vitest';
import { QueueHarness, ticketOf } from '../../support/queue-harness.ts';

/** Workers that speak only the base tell little; what they leave out must hold nobody up. */

describe('a caller that waits for a base worker', () => {
  it('is to ask again when the worker is back on a new connection, since its answer may be lost', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const answers = queue.request({ job_id: 'c', model: 'cfg' });
    queue.drop(worker);
    queue.advance(2);
    expect(answers).toEqual([]);
    const back = queue.baseWorker('old');
    expect(answers).toMatchObject([{ kind: 'error', failure: { code: 'worker_died', retryable: true } }]);
    const again = queue.request({ job_id: 'c', model: 'cfg' });
    expect(back.lastJob().job_id).toBe('c');
    queue.say(back, { type: 'job_result', job_id: 'c', fence_token: 0, result: { completion: 1 } });
    expect(again).toMatchObject([{ kind: 'result', result: { completion: 1 } }]);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('asks again too when the queue did not see the older connection close', () => {
    const queue = new QueueHarness();
    queue.baseWorker('old');
    const answers = queue.request({ model: 'cfg' });
    queue.baseWorker('old');
    expect(answers).toMatchObject([{ kind: 'error', failure: { retryable: true } }]);
  });

  it('goes on waiting when the worker registers again on the same connection', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const answers = queue.request({ job_id: 'c', model: 'cfg' });
    queue.say(worker, { type: 'register', worker_id: 'old', config_id: 'cfg', capacity: 2 });
    expect(answers).toEqual([]);
    queue.say(worker, { type: 'job_result', job_id: 'c', fence_token: 0, result: {} });
    expect(answers).toMatchObject([{ kind: 'result' }]);
  });

  it('hears of its deadline, of which the worker knows nothing', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const answers = queue.request({ job_id: 'c', model: 'cfg', deadline_ms: 60_000 });
    const next = queue.job();
    queue.advance(59);
    expect(answers).toEqual([]);
    queue.advance(4);
    expect(answers).toMatchObject([{ kind: 'error', failure: { code: 'deadline', retryable: false } }]);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'c', reason: 'deadline' }]);
    expect(worker.lastJob().job_id).toBe(next);
  });
});

describe('a base worker that let a lease run out', () => {
  it('and said nothing all the while loses its socket, and gets jobs again when it dials again', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    queue.drop(worker);
    const back = queue.baseWorker('old');
    queue.say(back, { type: 'job_progress', job_id: id, fence_token: 0 });
    back.goSilent();
    queue.advance(299);
    expect([back.closed, queue.state(id)]).toEqual([null, 'leased']);
    queue.advance(2);
    expect(back.closed).toMatchObject({ code: 1001 });
    const again = queue.baseWorker('old');
    queue.advance(2);
    expect(again.lastJob()).toMatchObject({ job_id: id });
    expect(queue.queue.read('get', id, null)?.attempt_errors).toMatchObject([{ code: 'lease_expired' }]);
  });

  it('and never comes back costs one attempt, not all of them', () => {
    const queue = new QueueHarness();
    const gone = queue.baseWorker('gone');
    gone.goSilent();
    const id = queue.job();
    queue.advance(900);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'pending', attempts: 1 });
  });

  it('but spoke of another job keeps its socket and gets more', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const [lost, renewed] = [queue.job(), queue.job()];
    worker.goSilent();
    queue.advance(200);
    queue.say(worker, { type: 'job_progress', job_id: renewed, fence_token: 0 });
    worker.goSilent();
    queue.advance(102);
    expect([worker.closed, queue.state(renewed)]).toEqual([null, 'leased']);
    expect(worker.lastJob().job_id).toBe(lost);
    expect(worker.frames('job')).toHaveLength(3);
  });
});

describe('a base worker that is back on a new connection', () => {
  const named = (job_id: string) => ({
    type: 'job_progress',
    job_id,
    fence_token: 0,
    status_message: 'processing',
  });

  it('loses the jobs that it does not name within 70 s, and keeps those that it names', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const [lost, held] = [queue.job(), queue.job()];
    queue.drop(worker);
    queue.advance(2);
    const back = queue.baseWorker('old', 'cfg', 2);
    queue.advance(30);
    queue.say(back, named(held));
    queue.advance(39);
    expect([queue.state(lost), queue.state(held)]).toEqual(['leased', 'leased']);
    queue.advance(3);
    expect(back.frames('job_revoked')).toMatchObject([{ job_id: lost, reason: 'lease_lost' }]);
    expect(queue.queue.read('get', lost, null)?.attempt_errors).toHaveLength(1);
    queue.advance(200);
    expect(queue.queue.read('get', held, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
    expect(back.closed).toBeNull();
  });

  it('has a whole lease for jobs that it is given there, and after it registers again', () => {
    const queue = new QueueHarness();
    queue.drop(queue.baseWorker('old'));
    const back = queue.baseWorker('old');
    const id = queue.job();
    queue.advance(100);
    queue.say(back, { type: 'register', worker_id: 'old', config_id: 'cfg', capacity: 1 });
    queue.advance(299);
    expect(queue.queue.read('get', id, null)).toMatchObject({ state: 'leased', attempt_errors: [] });
  });

  it('may be the only worker there is: what it lost comes to it again', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    queue.drop(worker);
    const back = queue.baseWorker('old');
    queue.advance(75);
    expect(back.lastJob()).toMatchObject({ job_id: id });
    expect(back.lastJob().fence_token).toBeGreaterThan(fence_token);
  });
});

describe('workers that speak only the base', () => {
  it('lease for 300 s, renewed by progress with the job’s token or 0', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    queue.advance(299);
    queue.say(worker, { type: 'job_progress', job_id: id, fence_token: 0, status_message: 'processing' });
    queue.advance(299);
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'leased',
      status_message: 'processing',
    });
    expect(queue.queue.read('get', id, null)?.attempt_errors).toEqual([]);
    queue.advance(2);
    expect(queue.queue.read('get', id, null)?.attempt_errors).toHaveLength(1);
  });

  it('begin a job in its ledger once, also with progress that says nothing', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    const progress = { type: 'job_progress', job_id: id, fence_token: 0 };
    for (const more of [{}, {}, { progress: 0.5 }, {}]) queue.say(worker, { ...progress, ...more });
    expect(queue.queue.read('ledger', id, null)?.steps.map(({ step }) => step)).toEqual([
      'submitted',
      'dispatched',
      'started',
    ]);
    expect(queue.queue.read('get', id, null)).toMatchObject({ progress: 0.5, status_message: null });
  });

  it('keep their jobs when they reconnect without listing them', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    const job = worker.lastJob();
    queue.drop(worker);
    queue.advance(2);
    const back = queue.baseWorker('old');
    queue.advance(20);
    queue.say(back, { type: 'job_result', job_id: id, fence_token: job.fence_token, result: { a: 1 } });
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'succeeded',
      attempts: 1,
      attempt_errors: [],
    });
    expect(back.frames('ack')).toEqual([]);
  });

  it.each<[string, object, string]>([
    ['chat_completion', { task: '', input: { openai_input: { model: 'other' } } }, 'openai/chat-completion'],
    ['own_type', { task: null, input: { openai_input: { model: 'other' } } }, 'own_type'],
    ['own_type', { task: 'openai/embeddings', input: 'x' }, 'openai/embeddings'],
  ])('are told one task, so that they make no other job of a payload: %s %j', (job_type, payload, task) => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    queue.job({ job_type, payload: JSON.stringify(payload) });
    expect(worker.lastJob().payload).toEqual({ ...payload, task });
  });

  it('settle a waiting caller with token 0, and never a persisted job', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const answers = queue.request({ job_id: 'c', model: 'cfg' });
    const id = queue.job();
    expect(worker.frames('job')[0]).toMatchObject({
      job_id: 'c',
      mode: 'transient',
      payload: { task: 'openai/chat-completion', messages: [] },
    });
    queue.say(worker, { type: 'job_result', job_id: 'c', fence_token: 0, result: { completion: 1 } });
    queue.say(worker, { type: 'job_result', job_id: id, fence_token: 0, result: {} });
    expect(answers).toMatchObject([{ kind: 'result', result: { completion: 1 }, worker_id: 'old' }]);
    expect(queue.state(id)).toBe('leased');
  });

  it('tell the engine’s status in their text, from which a caller’s mistake is told from a fault', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const [mistake, fault] = [queue.job(), queue.job()];
    const [first, second] = worker.frames('job');
    queue.say(worker, {
      type: 'job_error',
      job_id: mistake,
      fence_token: first?.fence_token,
      error: 'Error code: 400 - too long',
    });
    queue.say(worker, {
      type: 'job_error',
      job_id: fault,
      fence_token: second?.fence_token,
      error: 'Connection error.',
    });
    expect(queue.queue.read('get', mistake, null)).toMatchObject({
      state: 'failed',
      error: { http_status: 400 },
    });
    expect(queue.queue.read('get', fault, null)).toMatchObject({ state: 'pending', attempts: 1 });
  });

  it.each([
    ['no JSON', 'not json'],
    ['no object', '[1]'],
    ['null', 'null'],
  ])('are not given an engine’s request whose body is %s, and go on', (_, body) => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const before = queue.job();
    const payload = JSON.stringify({ path: '/v1/chat/completions', body });
    const unsuited = queue.job({ job_type: 'engine_request', payload });
    const after = queue.job();
    const { fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_result', job_id: before, fence_token, result: {} });
    expect([before, unsuited, after].map((id) => queue.state(id))).toEqual(['succeeded', 'failed', 'leased']);
    expect(queue.queue.read('get', unsuited, null)?.error?.message).toContain('cannot run');
  });

  it.each(['/v1/completions', '/v1/responses', '/v1/messages'])('say that they do not know %s', (path) => {
    const queue = new QueueHarness();
    queue.baseWorker('old');
    const answers = queue.request({ model: 'cfg', payload: JSON.stringify({ path, body: '{}' }) });
    expect(answers).toMatchObject([
      {
        kind: 'error',
        failure: { code: 'unsupported_by_worker', retryable: false, message: expect.stringContaining(path) },
      },
    ]);
  });

  it('get the body of an engine’s request as it was written', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const request = (body: string) => JSON.stringify({ path: '/v1/embeddings', body });
    queue.job({ job_type: 'engine_request', payload: request(' { "input": "a", "n": 1.0 }\n') });
    expect(worker.lastJob().payload).toEqual({ task: 'openai/embeddings', input: 'a', n: 1 });
    queue.job({ job_type: 'engine_request', payload: request('{ }') });
    expect(worker.lastJob().payload).toEqual({ task: 'openai/embeddings' });
  });

  it('do what the route says, and no task that a body names', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const body = '{"input":"a","task":"fal/text-to-video"}';
    queue.job({ job_type: 'engine_request', payload: JSON.stringify({ path: '/v1/embeddings', body }) });
    expect(worker.lastJob().payload).toEqual({ task: 'openai/embeddings', input: 'a' });
  });

  it('fetch what does not fit their frame, in their own form and from where they dialled', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const text = 'x'.repeat(1_100_000);
    queue.job({ payload: JSON.stringify({ text }) });
    const { payload, payload_url } = worker.lastJob();
    expect(payload).toEqual({});
    expect(payload_url).toMatch(/^https:\/\/queue\.test\/jobs\/.*form=base/);
    const file = queue.queue.read('payloadOf', ticketOf(payload_url));
    expect(file).toEqual({
      ok: true,
      job_type: 'chat_completion',
      payload: { text: JSON.stringify({ text }) },
    });

    const body = JSON.stringify({ messages: [{ role: 'user', content: text }] });
    queue.request({ model: 'cfg', payload: JSON.stringify({ path: '/v1/chat/completions', body }) });
    const waited = queue.queue.read('payloadOf', ticketOf(worker.lastJob().payload_url));
    expect(waited).toMatchObject({ ok: true, payload: { bytes: expect.any(Uint8Array) } });
    expect(worker.lastJob().result_upload_url).toBeUndefined();
  });
});
