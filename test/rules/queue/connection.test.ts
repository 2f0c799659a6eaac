import { describe, expect, it } from 'vitest';
import { QueueHarness, ticketOf } from '../../support/queue-harness.ts';

describe('registering', () => {
  it('grants what both sides know, and tells leases and where to dial the answer socket', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w 1', { features: ['ack', 'answer', 'teleport'] });
    const [registered] = worker.frames('registered');
    expect(registered).toMatchObject({
      protocol: 1,
      features: ['ack', 'answer'],
      lease_seconds: 30,
      renew_after_seconds: 24,
    });
    expect(registered?.answers_url).toMatch(/^answers\?queue_id=q&worker_id=w\+1&session_id=session-\d+$/);
  });

  it('sends a base worker nothing it does not know', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    queue.job({ payload: '{"messages":[{"role":"user","content":"hi"}]}' });
    expect(worker.sent).toHaveLength(1);
    expect(Object.keys(worker.lastJob()).sort()).toEqual(
      ['config_id', 'fence_token', 'job_id', 'mode', 'payload', 'result_upload_url', 'type'].sort(),
    );
    expect(worker.lastJob().payload).toMatchObject({ task: 'openai/chat-completion' });
  });

  it('lets the newer connection of a worker id win, and does not lose it when the older one closes', () => {
    const queue = new QueueHarness();
    const older = queue.worker('w');
    const newer = queue.worker('w');
    expect(older.closed).toMatchObject({ code: 4409 });
    queue.drop(older);
    const id = queue.job();
    expect(newer.lastJob().job_id).toBe(id);
  });

  it('is refused as a second worker on one connection, and the first goes on', () => {
    const queue = new QueueHarness();
    const connection = queue.baseWorker('first');
    queue.say(connection, { type: 'register', worker_id: 'second', config_id: 'cfg', capacity: 1 });
    expect(connection.frames('error')).toMatchObject([{ message: expect.stringContaining('"first"') }]);
    expect(queue.queue.sessions().map(({ worker_id }) => worker_id)).toEqual(['first']);
    queue.say(connection, { type: 'register', worker_id: 'first', config_id: 'cfg', capacity: 2 });
    expect(queue.queue.status()).toMatchObject({ workers: 1, slots: 2 });
    queue.drop(connection);
    expect(queue.state(queue.job())).toBe('pending');
  });

  it('answers what it cannot read with one error that says what is wrong, and goes on', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const stranger = queue.connect();
    queue.say(worker, '{"type":');
    queue.say(worker, '[1,2]');
    queue.say(worker, { type: 'job_result', job_id: 5, result: {} });
    queue.say(stranger, { type: 'drain' });
    queue.say(stranger, { type: 'dance' });
    const messages = [...worker.frames('error'), ...stranger.frames('error')].map((frame) =>
      String(frame.message),
    );
    expect(messages[0]).toContain('not JSON');
    expect(messages[2]).toContain('job_id');
    expect(messages[3]).toContain('register first');
    expect(messages[4]).toContain('dance');
    expect(messages).toHaveLength(5);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('ignores frame types it does not know from a worker that agreed on a protocol', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.say(worker, { type: 'from_the_future' });
    expect(worker.frames('error')).toEqual([]);
  });

  it('tells the log of unknown frame types once each, shortened, and of a hundred at most', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    for (const _ of [1, 2]) queue.say(worker, { type: 'x'.repeat(100_000) });
    for (let n = 0; n < 1000; n++) queue.say(worker, { type: `unknown ${n}` });
    const told = queue.logLines.filter(({ message }) => message.includes('type'));
    expect(told).toHaveLength(100);
    expect(told[0]?.fields).toEqual({ type: 'x'.repeat(64) });
  });
});

describe('leases and reconnects', () => {
  it('keeps a lease that is renewed, and names one that is lost', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    for (let turn = 0; turn < 5; turn++) {
      queue.advance(24);
      queue.say(worker, { type: 'renew', jobs: [{ job_id: id, fence_token }] });
    }
    expect(queue.state(id)).toBe('leased');
    expect(queue.queue.get(id)?.attempts).toBe(0);
    queue.say(worker, { type: 'renew', jobs: [{ job_id: id, fence_token: fence_token - 1 }] });
    expect(worker.frames('renewed').map((frame) => frame.lost)).toEqual([[], [], [], [], [], [id]]);
  });

  it('gives a job to another worker when its lease runs out, charging the attempt', () => {
    const queue = new QueueHarness();
    queue.worker('silent');
    const id = queue.job();
    const other = queue.worker('other');
    queue.advance(33);
    expect(other.lastJob()).toMatchObject({ job_id: id, attempt: 2 });
    expect(queue.queue.get(id)?.attempt_errors).toMatchObject([
      { code: 'lease_expired', worker_id: 'silent' },
    ]);
  });

  it('loses no lease and restarts no job when the worker is back within the grace', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    queue.drop(worker);
    queue.advance(5);
    const back = queue.worker('w', { jobs: [{ job_id: id, fence_token }] });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [id], revoked: [] });
    expect(back.frames('job')).toEqual([]);
    queue.advance(20);
    expect(queue.queue.get(id)).toMatchObject({ state: 'leased', attempts: 0, fence_token });
  });

  it('moves the job when the worker is not back within the grace, long before its lease would end', () => {
    const queue = new QueueHarness();
    const gone = queue.worker('gone');
    const id = queue.job();
    const other = queue.worker('other');
    queue.drop(gone);
    queue.advance(9);
    expect(other.frames('job')).toEqual([]);
    queue.advance(5);
    expect(other.lastJob().job_id).toBe(id);
  });

  it('releases uncharged what the same process never received, and charges what another process lost', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 3 });
    const cut = queue.worker('w');
    expect(cut.lastJob()).toMatchObject({ job_id: id, attempt: 1 });
    const restarted = queue.worker('w', { instance: { boot_id: 'another' } });
    expect(restarted.frames('job')).toEqual([]);
    queue.advance(2);
    expect(restarted.lastJob()).toMatchObject({ job_id: id, attempt: 2 });
    expect(queue.queue.get(id)?.attempt_errors).toMatchObject([{ code: 'worker_died' }]);
    expect(worker.closed).not.toBeNull();
  });

  it('revokes at reconnect what was given to another worker or cancelled meanwhile', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const [moved, cancelled] = [queue.job(), queue.job()];
    const held = worker.frames('job').map(({ job_id, fence_token }) => ({ job_id, fence_token }));
    queue.drop(worker);
    queue.queue.cancel(cancelled, 'cancelled');
    queue.advance(11);
    queue.worker('other');
    queue.advance(2);
    const back = queue.worker('w', { capacity: 2, jobs: held });
    expect(back.frames('registered')[0]).toMatchObject({
      resumed: [],
      revoked: [{ job_id: moved }, { job_id: cancelled }],
    });
  });

  it('revokes what the queue failed for good while the worker was gone, and fills its slot', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    const jobs = [{ job_id: id, fence_token: worker.lastJob().fence_token }];
    queue.drop(worker);
    queue.advance(12);
    expect(queue.state(id)).toBe('failed');
    const next = queue.job();
    const back = queue.worker('w', { jobs });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [], revoked: [{ job_id: id }] });
    expect(back.lastJob().job_id).toBe(next);
    // Had the frame not told it so, the renewal would.
    queue.say(back, { type: 'renew', jobs });
    expect(back.frames('renewed').at(-1)).toMatchObject({ lost: [id] });
  });

  it('neither revokes nor loses what the worker itself settled and has no acknowledgement of', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const [good, bad] = [queue.job(), queue.job()];
    const jobs = worker.frames('job').map(({ job_id, fence_token }) => ({ job_id, fence_token }));
    queue.say(worker, { type: 'job_result', ...jobs[0], result: {} });
    queue.say(worker, { type: 'job_error', ...jobs[1], error: 'too long', retryable: false });
    expect([queue.state(good), queue.state(bad)]).toEqual(['succeeded', 'failed']);
    const back = queue.worker('w', { capacity: 2, jobs });
    expect(back.frames('registered')[0]).toMatchObject({ resumed: [], revoked: [] });
    queue.say(back, { type: 'renew', jobs });
    expect(back.frames('renewed').at(-1)).toMatchObject({ lost: [] });
  });

  it('gives every lease one grace after a restart of the queue, and only one', () => {
    const queue = new QueueHarness();
    queue.worker('w');
    const id = queue.job();
    queue.nowMs += 3_600_000;
    queue.restart();
    queue.advance(9);
    queue.restart();
    expect(queue.state(id)).toBe('leased');
    queue.advance(3);
    expect(queue.state(id)).toBe('pending');
  });

  it('remembers its workers and what they run over a hibernation', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const id = queue.job();
    const { fence_token } = worker.lastJob();
    queue.hibernate();
    queue.submit({}, {});
    expect(worker.frames('job')).toHaveLength(2);
    queue.say(worker, { type: 'job_result', job_id: id, fence_token, result: {} });
    expect(queue.state(id)).toBe('succeeded');
    expect(worker.frames('job')).toHaveLength(3);
    expect(queue.queue.sessions()).toMatchObject([{ worker_id: 'w', state: 'ready', models: ['tiny'] }]);
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
    expect(queue.queue.get(id)).toMatchObject({ state: 'leased', status_message: 'processing' });
    expect(queue.queue.get(id)?.attempts).toBe(0);
    queue.advance(2);
    expect(queue.queue.get(id)?.attempts).toBe(1);
  });

  it('begin a job in its ledger once, also with progress that says nothing', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old');
    const id = queue.job();
    const progress = { type: 'job_progress', job_id: id, fence_token: 0 };
    for (const more of [{}, {}, { progress: 0.5 }, {}]) queue.say(worker, { ...progress, ...more });
    expect(queue.queue.ledger(id)?.steps.map(({ step }) => step)).toEqual([
      'submitted',
      'dispatched',
      'started',
    ]);
    expect(queue.queue.get(id)).toMatchObject({ progress: 0.5, status_message: null });
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
    expect(queue.queue.get(id)).toMatchObject({ state: 'succeeded', attempts: 0 });
    expect(back.frames('ack')).toEqual([]);
  });

  it('settle a waiting caller with token 0, and never a persisted job', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const answers = queue.call({ job_id: 'c', model: 'cfg' });
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
    expect(queue.queue.get(mistake)).toMatchObject({ state: 'failed', error: { http_status: 400 } });
    expect(queue.queue.get(fault)).toMatchObject({ state: 'pending', attempts: 1 });
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
    expect(queue.queue.get(unsuited)?.error?.message).toContain('cannot run');
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

  it('fetch what does not fit their frame, in their own form and from where they dialled', () => {
    const queue = new QueueHarness();
    const worker = queue.baseWorker('old', 'cfg', 2);
    const text = 'x'.repeat(1_100_000);
    queue.job({ payload: JSON.stringify({ text }) });
    const { payload, payload_url } = worker.lastJob();
    expect(payload).toEqual({});
    expect(payload_url).toMatch(/^https:\/\/queue\.test\/jobs\/.*form=base/);
    const file = queue.queue.readFile(ticketOf(payload_url), 'base');
    expect('text' in file && JSON.parse(file.text)).toEqual({ task: 'openai/chat-completion', text });

    const body = JSON.stringify({ messages: [{ role: 'user', content: text }] });
    queue.call({ model: 'cfg', payload: JSON.stringify({ path: '/v1/chat/completions', body }) });
    const waited = queue.queue.readFile(ticketOf(worker.lastJob().payload_url), 'base');
    expect('text' in waited && JSON.parse(waited.text)).toMatchObject({ messages: [{ content: text }] });
    expect(worker.lastJob().result_upload_url).toBeUndefined();
  });
});

describe('callers that wait', () => {
  it('are dispatched at once to a relay and a stream', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [answer] = queue.call({ job_id: 'c', deadline_ms: 9000 });
    const job = worker.lastJob();
    expect(answer).toMatchObject({
      kind: 'stream',
      relay: 'q/w',
      stream_id: job.stream_id,
      fence_token: job.fence_token,
    });
    expect(job).toMatchObject({
      job_id: 'c',
      mode: 'transient',
      job_type: 'engine_request',
      deadline_ms: 9000,
    });
  });

  it('are refused with the models there are, or told to come back, or wait as long as they say', () => {
    const queue = new QueueHarness();
    expect(queue.call({ model: 'tiny' })).toMatchObject([{ reason: 'unknown_model' }]);
    expect(queue.call({ model: null })).toMatchObject([{ reason: 'no_worker' }]);
    const worker = queue.worker('w');
    expect(queue.call({ model: 'huge' })).toMatchObject([
      { reason: 'unknown_model', message: expect.stringContaining('models: tiny') },
    ]);
    queue.drop(worker);
    queue.advance(11);
    const [refused] = queue.call({ model: 'tiny' });
    expect(refused).toMatchObject({ reason: 'no_worker', retry_after_seconds: 5 });
    const patient = queue.call({ model: 'tiny', wait_for_worker_ms: 30_000 });
    const hasty = queue.call({ model: 'tiny', wait_for_worker_ms: 3000 });
    queue.advance(4);
    expect([patient.length, hasty.length]).toEqual([0, 1]);
    queue.worker('w2');
    expect(patient).toMatchObject([{ kind: 'stream', worker_id: 'w2' }]);
  });

  it('wait for a worker that lost its connection as long as it may be back, not for one that left', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.call();
    const [before, hasty] = [queue.call(), queue.call({ wait_for_slot_ms: 1000 })];
    const { job_id, fence_token } = worker.lastJob();
    queue.drop(worker);
    const during = queue.call();
    queue.advance(2);
    expect([before, hasty, during]).toMatchObject([[], [{ reason: 'no_worker' }], []]);
    const back = queue.worker('w', { jobs: [{ job_id, fence_token }] });
    queue.say(back, { type: 'job_result', job_id, fence_token, result: {} });
    expect(before).toMatchObject([{ kind: 'stream' }]);
    queue.drop(back);
    queue.advance(13);
    expect(during).toMatchObject([{ reason: 'no_worker' }]);

    const leaving = queue.worker('leaving');
    queue.say(leaving, { type: 'drain' });
    queue.drop(leaving);
    expect(queue.call()).toMatchObject([{ reason: 'no_worker' }]);
  });

  it('wait for a slot, and hear it when none becomes free', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.call();
    const waiting = queue.call({ wait_for_slot_ms: 60_000 });
    const hasty = queue.call({ wait_for_slot_ms: 1000 });
    queue.advance(2);
    expect(hasty).toMatchObject([{ reason: 'no_slot' }]);
    const { job_id, fence_token } = worker.lastJob();
    queue.say(worker, { type: 'job_result', job_id, fence_token, result: {} });
    expect(waiting).toMatchObject([{ kind: 'stream' }]);
  });

  it('free their slot when they hang up, waiting or running', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.call({ job_id: 'running' });
    const waiting = queue.call({ job_id: 'waiting' });
    const last = queue.call({ job_id: 'last' });
    queue.queue.cancel('waiting', 'caller_gone');
    expect(waiting).toMatchObject([{ reason: 'cancelled' }]);
    queue.queue.cancel('running', 'caller_gone');
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'running', reason: 'caller_gone' }]);
    expect(last).toMatchObject([{ kind: 'stream' }]);
  });

  it('hear through their relay when the worker does not come back or comes back without their job', () => {
    const queue = new QueueHarness();
    const gone = queue.worker('gone');
    queue.call();
    const { stream_id } = gone.lastJob();
    queue.drop(gone);
    queue.advance(13);
    expect(queue.broken).toMatchObject([{ relay: 'q/gone', stream: stream_id, reason: { retryable: true } }]);
    const worker = queue.worker('w');
    queue.call();
    queue.worker('w');
    expect(queue.broken.at(-1)).toMatchObject({ relay: 'q/w', stream: worker.lastJob().stream_id });
    expect(queue.queue.status()).toMatchObject({ running: 0, pending: 0 });
  });

  it('that ask again before their broken attempt is settled take one slot, not two', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    queue.call({ job_id: 'c' });
    const broken = first.lastJob();
    const second = queue.worker('second');
    queue.call({ job_id: 'c' });
    expect(second.lastJob().job_id).toBe('c');
    queue.say(first, { type: 'job_error', job_id: 'c', fence_token: broken.fence_token, error: 'broke' });
    expect(queue.queue.status()).toMatchObject({ running: 1 });
    expect(queue.state(queue.job())).toBe('leased');
    expect(second.frames('job_revoked')).toEqual([]);
  });

  it('that ask again and get another worker stop their older attempt, whose slot is filled', () => {
    const queue = new QueueHarness();
    const first = queue.worker('first');
    queue.call({ job_id: 'c' });
    const second = queue.worker('second', { capacity: 2 });
    queue.job();
    queue.call({ job_id: 'c' });
    expect(second.lastJob().job_id).toBe('c');
    expect(first.frames('job_revoked')).toMatchObject([{ job_id: 'c', reason: 'superseded' }]);
    expect(second.frames('job_revoked')).toEqual([]);
    expect(queue.queue.status().running).toBe(2);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('that ask again and get the same worker have one attempt there, which nothing revokes', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.call({ job_id: 'c' });
    const [again] = queue.call({ job_id: 'c' });
    expect(again).toMatchObject({ kind: 'stream', fence_token: worker.lastJob().fence_token });
    expect(worker.frames('job_revoked')).toEqual([]);
    expect(queue.queue.status().running).toBe(1);
  });

  it('keep their slot with a worker that lists them after a restart of the queue', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.call({ job_id: 'c' });
    const { fence_token } = worker.lastJob();
    queue.restart();
    const back = queue.worker('w', { jobs: [{ job_id: 'c', fence_token }] });
    const id = queue.job();
    expect(queue.state(id)).toBe('pending');
    queue.say(back, { type: 'job_result', job_id: 'c', fence_token, result: {} });
    expect(back.frames('ack')).toMatchObject([{ outcome: 'accepted' }]);
    expect(queue.state(id)).toBe('leased');
  });

  it('keep their worker when the queue restarts and hibernates before they are answered', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.call({ job_id: 'c' });
    const jobs = [{ job_id: 'c', fence_token: worker.lastJob().fence_token }];
    queue.restart();
    const back = queue.worker('w', { jobs });
    queue.hibernate();
    queue.say(back, { type: 'renew', jobs });
    expect(back.frames('renewed').at(-1)).toMatchObject({ lost: [] });
  });

  it('may leave the model out when there is one, and are asked for it when there are several', () => {
    const queue = new QueueHarness();
    queue.worker('a', { capacity: 4 });
    expect(queue.call({ model: 'default' })).toMatchObject([{ kind: 'stream' }]);
    queue.worker('b', { config_id: 'cfg-b', instance: { models: ['beta'] } });
    expect(queue.call({ model: null })).toMatchObject([
      { reason: 'ambiguous_model', message: 'name a model, there are several: tiny, beta' },
    ]);
  });
});
