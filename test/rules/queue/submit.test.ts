import { describe, expect, it } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { payloadFileId } from '../../../src/queue/rpc.ts';
import { result } from '../../support/job-frames.ts';
import { QueueHarness } from '../../support/queue-harness.ts';

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

  it('answers the same job for the same payload with other blanks, and no other', () => {
    const queue = new QueueHarness();
    queue.submit({ id: 'mine', payload: '{"a": "x \\" y",\n"seed":9007199254740993}' });
    const [same] = queue.submit({ id: 'mine', payload: '{"a":"x \\" y", "seed": 9007199254740993}' });
    expect(same).toMatchObject({ ok: true, created: false });
    for (const payload of [
      '{"a":"x \\" y","seed":9007199254740992}',
      '{"a":"x \\"y","seed":9007199254740993}',
    ])
      expect(queue.submit({ id: 'mine', payload })).toMatchObject([{ ok: false, reason: 'conflict' }]);
  });

  it('is a conflict under the id of a request that a caller waits for', () => {
    const queue = new QueueHarness();
    const worker = queue.worker('w', { capacity: 2 });
    queue.request({ job_id: 'same' });
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

  it('finds the pool by the model, by being the only one, or says which there are', () => {
    const queue = new QueueHarness();
    expect(queue.submit({ config_id: undefined })).toMatchObject([{ ok: false, reason: 'no_pool' }]);
    queue.worker('a', { config_id: 'cfg-a', instance: { models: ['alpha'] } });
    expect(queue.submit({ config_id: undefined })).toMatchObject([{ ok: true, job: { config_id: 'cfg-a' } }]);
    queue.worker('b', { config_id: 'cfg-b', instance: { models: ['beta'] } });
    expect(queue.submit({ config_id: undefined, model: 'beta' })).toMatchObject([
      { ok: true, job: { config_id: 'cfg-b' } },
    ]);
    const [unknown] = queue.submit({ config_id: undefined, model: 'gamma' });
    const message =
      'no worker serves the model "gamma": give one of these as model: alpha, beta; or one of these as config_id: cfg-a, cfg-b';
    expect(unknown).toMatchObject({ ok: false, reason: 'unknown_pool', message });
  });

  it('knows a long payload by its file: the same one again is the same job, another is a conflict', () => {
    const queue = new QueueHarness();
    const [first, again, other] = ['a', 'a', 'b'].map((digit) => payloadFileId(digit.repeat(64), true));
    const submit = (payload_file: string | undefined) =>
      queue.submit({ id: 'mine', payload: '', ...(payload_file && { payload_file }) });
    expect(submit(first)).toMatchObject([{ ok: true, created: true, has_file: true }]);
    expect(submit(first)).toMatchObject([{ ok: true, created: false, has_file: true }]);
    expect(submit(again)).toMatchObject([{ ok: true, created: false, has_file: false }]);
    expect(submit(other)).toMatchObject([{ ok: false, reason: 'conflict' }]);
    expect(submit(undefined)).toMatchObject([{ ok: false, reason: 'conflict' }]);
    expect(queue.queue.read('contents', 'mine', 'payload', null)).toEqual({ file: first });
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
    const inRow = (bytes: number) => JSON.stringify({ text: text(Math.floor(bytes / 3)) });
    const done = queue.job({ payload: inRow(bounds.INLINE_BYTES) });
    queue.say(worker, result(worker.lastJob(), text(bounds.ROW_RESULT_CHARACTERS)));
    expect(queue.queue.read('get', done, null)?.result).toEqual({
      value: text(bounds.ROW_RESULT_CHARACTERS),
    });
    const attempts = 50;
    const id = queue.job({ payload: inRow(bounds.INLINE_BYTES), max_attempts: attempts });
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const { fence_token } = worker.lastJob();
      const long = { error: '\u0001'.repeat(100_000), body: { y: 'y'.repeat(1_000_000) } };
      queue.say(worker, { type: 'job_error', job_id: id, fence_token, retryable: true, ...long });
      queue.advance(61);
    }
    expect(queue.queue.read('get', id, null)).toMatchObject({
      state: 'failed',
      attempts,
      error: { code: 'worker_error' },
    });
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
    const errors = ids.map((id) => queue.queue.read('get', id, null)?.error);
    expect(errors[0]).toMatchObject({ message: 'bad', body: { detail: 'x'.repeat(20_000) } });
    expect(errors[1]).toMatchObject({ message: 'bad', body: '(too long to be kept)' });
  });
});
