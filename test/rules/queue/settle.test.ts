import { describe, expect, it } from 'vitest';
import type { JobView } from '../../../src/protocol/index.ts';
import { unpackView } from '../../../src/queue/rpc.ts';
import { QueueHarness, ticketOf } from '../../support/queue-harness.ts';

type Pushed = { job_id: string; fence_token: number };
const result = (job: Pushed, value: unknown = 1) => ({
  type: 'job_result',
  job_id: job.job_id,
  fence_token: job.fence_token,
  result: { value },
});
const failure = (job: Pushed, more: object = {}) => ({
  type: 'job_error',
  job_id: job.job_id,
  fence_token: job.fence_token,
  error: 'it broke',
  ...more,
});

describe('settlement', () => {
  it('stores the result, acknowledges it, and acknowledges a repeat the same way', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const job = worker.lastJob();
    queue.say(worker, result(job));
    queue.say(worker, result(job, 2));
    expect(queue.queue.get(id)).toMatchObject({ state: 'succeeded', result: { value: 1 }, attempts: 0 });
    expect(worker.frames('ack').map((ack) => ack.outcome)).toEqual(['accepted', 'accepted']);
  });

  it('answers stale to an older fence and changes nothing', () => {
    const queue = new QueueHarness();
    const slow = queue.worker('slow');
    const id = queue.job();
    const first = slow.lastJob();
    queue.say(slow, { type: 'pause' });
    queue.advance(31);
    const quick = queue.worker('quick');
    queue.advance(2);
    const second = quick.lastJob();
    expect(second.job_id).toBe(id);
    queue.say(slow, result(first, 'old'));
    expect(slow.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    queue.say(quick, result(second, 'new'));
    expect(queue.queue.get(id)).toMatchObject({ state: 'succeeded', result: { value: 'new' } });
  });

  it('does not let a worker settle another worker’s job even with the right token', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder');
    const id = queue.job();
    const thief = queue.worker('thief');
    queue.say(thief, result(holder.lastJob()));
    expect(thief.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    expect(queue.state(id)).toBe('leased');
  });

  it('lets only the last holder settle or resume a job that is pending again', () => {
    const queue = new QueueHarness();
    const holder = queue.worker('holder');
    const id = queue.job();
    const job = holder.lastJob();
    queue.say(holder, failure(job, { retryable: true }));
    expect(queue.queue.get(id)).toMatchObject({ state: 'pending', worker_id: null });
    const { job_id, fence_token } = job;
    const thief = queue.worker('thief', { config_id: 'other', jobs: [{ job_id, fence_token }] });
    expect(thief.frames('registered')[0]).toMatchObject({ resumed: [], revoked: [{ job_id }] });
    for (const frame of [result(job), failure(job)]) {
      queue.say(thief, frame);
      expect(thief.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    }
    expect(queue.state(id)).toBe('pending');
    queue.queue.cancel(id, 'cancelled');
    expect(queue.queue.get(id)).toMatchObject({ state: 'cancelled', worker_id: null });
    expect(holder.frames('job_revoked')).toEqual([]);
  });

  it('takes a late result while nobody else was given the job', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const job = worker.lastJob();
    queue.say(worker, { type: 'pause' });
    queue.advance(31);
    expect(queue.state(id)).toBe('pending');
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: id, reason: 'lease_lost' }]);
    queue.say(worker, result(job));
    expect(queue.state(id)).toBe('succeeded');
  });

  it('acknowledges a settlement of a job it never had as unknown', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.say(worker, result({ job_id: 'ghost', fence_token: 7 }));
    expect(worker.frames('ack')).toMatchObject([{ job_id: 'ghost', outcome: 'unknown' }]);
  });

  it('fails at once on a final error and keeps the engine’s own status and body', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const body = { error: { message: 'too long' } };
    queue.say(
      worker,
      failure(worker.lastJob(), { code: 'engine_refused', retryable: false, http_status: 400, body }),
    );
    expect(queue.queue.get(id)).toMatchObject({
      state: 'failed',
      attempts: 1,
      error: { message: 'it broke', http_status: 400, body, code: 'engine_refused' },
    });
  });

  it('tries a retryable failure again after a delay, and fails with every attempt’s error at the last', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 2 });
    queue.say(worker, failure(worker.lastJob(), { retryable: true, error: 'first' }));
    expect(queue.state(id)).toBe('pending');
    expect(worker.frames('job')).toHaveLength(1);
    queue.advance(2);
    expect(worker.lastJob()).toMatchObject({ job_id: id, attempt: 2 });
    queue.say(worker, failure(worker.lastJob(), { retryable: true, error: 'second' }));
    const view = queue.queue.get(id);
    expect(view?.state).toBe('failed');
    expect(view?.attempt_errors.map((error) => error.message)).toEqual(['first', 'second']);
  });

  it('spends no attempt on a release', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ max_attempts: 1 });
    for (let turn = 0; turn < 5; turn++) {
      const { job_id, fence_token } = worker.lastJob();
      queue.say(worker, { type: 'job_release', job_id, fence_token, reason: 'overloaded' });
      queue.advance(2);
    }
    expect(queue.queue.get(id)).toMatchObject({ state: 'leased', attempts: 0 });
  });

  it('hands a job released by a draining worker to another one in the same event', () => {
    const queue = new QueueHarness();
    const leaving = queue.worker('leaving');
    const id = queue.job();
    const staying = queue.worker('staying');
    queue.say(leaving, { type: 'drain' });
    const { job_id, fence_token } = leaving.lastJob();
    queue.say(leaving, { type: 'job_release', job_id, fence_token, reason: 'draining' });
    expect(staying.lastJob().job_id).toBe(id);
  });
});

describe('cancel and deadline', () => {
  it('cancels a leased job, revokes it, and calls its late result stale', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    const next = queue.job();
    const job = worker.lastJob();
    expect(queue.queue.cancel(id, 'cancelled')).toMatchObject({ state: 'cancelled' });
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: id, reason: 'cancelled' }]);
    expect(worker.lastJob().job_id).toBe(next);
    queue.say(worker, result(job));
    expect(worker.frames('ack').at(-1)).toMatchObject({ outcome: 'stale' });
    expect(queue.state(id)).toBe('cancelled');
  });

  it('leaves a settled job as it is and knows nothing of one that never was', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.say(worker, result(worker.lastJob()));
    expect(queue.queue.cancel(id, 'cancelled')).toMatchObject({ state: 'succeeded' });
    expect(queue.queue.cancel('ghost', 'cancelled')).toBeNull();
  });

  it('expires a job at its deadline, pending or leased', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [leased, pending] = [queue.job({ deadline_seconds: 5 }), queue.job({ deadline_seconds: 5 })];
    expect(worker.lastJob().deadline_ms).toBe(5000);
    queue.advance(6);
    expect([queue.state(leased), queue.state(pending)]).toEqual(['expired', 'expired']);
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: leased, reason: 'deadline' }]);
  });

  it('expires a job uncharged also when its worker tells of the deadline before the alarm does', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job({ deadline_seconds: 5 });
    queue.nowMs += 5000;
    queue.say(worker, failure(worker.lastJob(), { code: 'deadline', retryable: false }));
    expect(queue.queue.get(id)).toMatchObject({
      state: 'expired',
      attempts: 0,
      worker_id: 'w',
      error: { code: 'deadline', retryable: false },
    });
    expect(worker.frames('ack')).toMatchObject([{ outcome: 'accepted' }]);
    expect(worker.frames('job_revoked')).toEqual([]);
    expect(queue.state(queue.job())).toBe('leased');
  });

  it('fails a job that has no deadline whatever its worker calls the error', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const id = queue.job();
    queue.say(worker, failure(worker.lastJob(), { code: 'deadline', retryable: false }));
    expect(queue.queue.get(id)).toMatchObject({ state: 'failed', attempts: 1 });
  });
});

describe('a request that is cancelled by its id', () => {
  it('is revoked at the worker, and its caller, who still waits, is told', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.call({ job_id: 'mine' });
    queue.queue.cancel('mine', 'cancelled');
    expect(worker.frames('job_revoked')).toMatchObject([{ job_id: 'mine', reason: 'cancelled' }]);
    expect(queue.broken).toMatchObject([{ reason: { code: 'cancelled', retryable: false } }]);
    queue.call({ job_id: 'gone' });
    queue.queue.cancel('gone', 'caller_gone');
    expect(queue.broken).toHaveLength(1);
  });
});

describe('waiting for a job', () => {
  it('answers when it settles, and with what there is when the time is over', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const [first, second] = [queue.job(), queue.job()];
    const heard: unknown[] = [];
    queue.queue.wait(first, 60_000, (view) => heard.push(view?.state));
    queue.queue.wait(second, 3000, (view) => heard.push(view?.state));
    expect(heard).toEqual([]);
    queue.say(worker, result(worker.lastJob()));
    expect(heard).toEqual(['succeeded']);
    queue.advance(4);
    expect(heard).toEqual(['succeeded', 'leased']);
  });
});

describe('submission', () => {
  it('answers the same job for the same id and payload, and a conflict for another payload', () => {
    const queue = new QueueHarness();
    const [first] = queue.submit({ id: 'mine', payload: '{"a":1}' });
    const [again, other] = queue.submit(
      { id: 'mine', payload: '{"a":1}' },
      { id: 'mine', payload: '{"a":2}' },
    );
    expect(first).toMatchObject({ ok: true, created: true });
    expect(again).toMatchObject({ ok: true, created: false, job: { id: 'mine' } });
    expect(other).toMatchObject({ ok: false, reason: 'conflict' });
  });

  it('is a conflict under the id of a request that a caller waits for', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.call({ job_id: 'same' });
    const [refused, other] = queue.submit({ id: 'same' }, { id: 'other' });
    expect(refused).toMatchObject({
      ok: false,
      reason: 'conflict',
      message: expect.stringContaining('same'),
    });
    expect(other).toMatchObject({ ok: true });
    queue.say(worker, { ...result(worker.frames('job')[0] as never), job_id: 'same' });
    expect(queue.submit({ id: 'same' })).toMatchObject([{ ok: true, created: true }]);
  });

  it('tells one caller the result of a finished job again, and leaves results out of an answer for many', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    queue.submit({ id: 'mine', payload: '{"a":1}' });
    queue.say(worker, result(worker.lastJob(), 'done'));
    const [alone] = queue.submit({ id: 'mine', payload: '{"a":1}' });
    expect(alone).toMatchObject({ ok: true, job: { state: 'succeeded', result: { value: 'done' } } });
    const [among] = queue.submit({ id: 'mine', payload: '{"a":1}' }, { id: 'other', payload: '{"a":1}' });
    expect(among).toMatchObject({ ok: true, job: { state: 'succeeded', result: null } });
  });

  it('finds the config by the model, by being the only one, or says which there are', () => {
    const queue = new QueueHarness();
    expect(queue.submit({ config_id: undefined })).toMatchObject([{ ok: false, reason: 'no_config' }]);
    queue.worker('a', { config_id: 'cfg-a', instance: { models: ['alpha'] } });
    expect(queue.submit({ config_id: undefined })).toMatchObject([{ ok: true, job: { config_id: 'cfg-a' } }]);
    queue.worker('b', { config_id: 'cfg-b', instance: { models: ['beta'] } });
    expect(queue.submit({ config_id: undefined, model: 'beta' })).toMatchObject([
      { ok: true, job: { config_id: 'cfg-b' } },
    ]);
    const [unknown] = queue.submit({ config_id: undefined, model: 'gamma' });
    expect(unknown).toMatchObject({ ok: false, reason: 'unknown_config' });
    expect(JSON.stringify(unknown)).toContain('cfg-a, cfg-b');
  });

  it('stores a payload and a result of megabytes whole', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const text = '😀é'.repeat(700_000);
    const id = queue.job({ payload: JSON.stringify({ text }) });
    const ticket = ticketOf(worker.lastJob().payload_url);
    expect(queue.queue.readFile(ticket, 'own')).toEqual({ ok: true, text: JSON.stringify({ text }) });
    queue.say(worker, result(worker.lastJob(), text));
    expect(unpackView(queue.queue.get(id) as JobView).result).toEqual({ value: text });
  });

  it('keeps every job within the 2 MB that Cloudflare gives a row, errors included', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w');
    const longest = () => {
      const columns = ['id', 'payload', 'result', 'error', 'attempt_errors', 'status_message'];
      const bytes = columns.map((column) => `coalesce(octet_length(${column}), 0)`).join(' + ');
      return Number(queue.database.prepare(`SELECT max(${bytes}) AS n FROM jobs`).get()?.n);
    };
    const steps = () => queue.database.prepare('SELECT max(octet_length(detail)) AS n FROM ledger').get()?.n;
    const text = (characters: number) => '語'.repeat(characters - '{"value":""}'.length);
    for (const characters of [262_144, 262_145, 499_999]) {
      const id = queue.job({ payload: JSON.stringify({ text: text(characters) }) });
      queue.say(worker, result(worker.lastJob(), text(characters)));
      expect(unpackView(queue.queue.get(id) as JobView).result).toEqual({ value: text(characters) });
    }
    const attempts = 50;
    const id = queue.job({ payload: JSON.stringify({ text: text(262_144) }), max_attempts: attempts });
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const { fence_token } = worker.lastJob();
      const long = { error: '\u0001'.repeat(100_000), body: { y: 'y'.repeat(1_000_000) } };
      queue.say(worker, { type: 'job_error', job_id: id, fence_token, retryable: true, ...long });
      queue.advance(61);
    }
    expect(queue.queue.get(id)).toMatchObject({ state: 'failed', attempts, error: { code: 'worker_error' } });
    expect(longest()).toBeLessThan(2_000_000);
    expect(steps()).toBeLessThan(2_000_000);
  });

  it('keeps an engine’s answer to an attempt unless it is long, and says when it is', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    const ids = [queue.job(), queue.job()];
    const fail = (index: number, more: object) => {
      const { job_id, fence_token } = worker.frames('job')[index] as { job_id: string; fence_token: number };
      queue.say(worker, { type: 'job_error', job_id, fence_token, error: 'bad', retryable: false, ...more });
    };
    fail(0, { body: { detail: 'x'.repeat(20_000) } });
    fail(1, { body: { detail: 'x'.repeat(200_000) } });
    const errors = ids.map((id) => queue.queue.get(id)?.error);
    expect(errors[0]).toMatchObject({ message: 'bad', body: { detail: 'x'.repeat(20_000) } });
    expect(errors[1]).toMatchObject({ message: 'bad', body: '(too long to be kept)' });
  });
});
