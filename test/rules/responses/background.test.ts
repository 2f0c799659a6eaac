import { beforeEach, describe, expect, it } from 'vitest';
import type { Fields } from '../../../src/features/responses/types.ts';
import type { FakeConnection } from '../../support/queue-harness.ts';
import { ResponsesHarness, ROOM, streamOf } from '../../support/responses-harness.ts';
import { settled } from '../../support/virtual-clock.ts';

let harness: ResponsesHarness;
let worker: FakeConnection;

beforeEach(() => {
  harness = new ResponsesHarness();
  worker = harness.queue.worker('w', { capacity: 10 });
});

/** A Response object as an engine writes it. */
function engineResponse(text: string, more: Fields = {}): Fields {
  const part = { type: 'output_text', text, annotations: [] };
  return {
    id: 'resp_engine',
    object: 'response',
    status: 'completed',
    output: [{ id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [part] }],
    usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
    ...more,
  };
}

async function viewOf(id: string): Promise<Fields> {
  return (await harness.object.get(id, null))!.response;
}

describe('a response in the background', () => {
  it('is queued, in progress and completed as its job is', async () => {
    harness.queue.drop(worker);
    const { id } = await harness.create({ metadata: { a: 'b' } });
    expect(await viewOf(id)).toMatchObject({
      id,
      status: 'queued',
      output: [],
      background: true,
      usage: null,
    });
    worker = harness.queue.worker('w');
    await settled();
    expect(await harness.status(id)).toBe('in_progress');
    harness.result(worker, engineResponse('Hello'));
    await settled();
    const response = await viewOf(id);
    expect(response).toMatchObject({
      id,
      status: 'completed',
      background: true,
      metadata: { a: 'b' },
      usage: { total_tokens: 3 },
      completed_at: expect.any(Number),
      error: null,
      incomplete_details: null,
    });
    expect(response.output).toMatchObject([{ content: [{ text: 'Hello' }] }]);
  });

  it('is written without that anybody asks for it', async () => {
    const { id } = await harness.create({});
    harness.result(worker, engineResponse('Hello', { status: 'incomplete' }));
    await settled();
    const row = harness.database.prepare('SELECT status FROM responses WHERE id = ?').get(id);
    expect(row).toMatchObject({ status: 'incomplete' });
  });

  it.each([
    [{ code: 'engine_error', error: 'it broke' }, 'server_error', 'it broke'],
    [{ code: 'engine_refused', error: 'too long', http_status: 400 }, 'invalid_prompt', 'too long'],
    [
      { code: 'engine_error', error: 'x', http_status: 429, body: { error: { message: 'slow down' } } },
      'rate_limit_exceeded',
      'slow down',
    ],
  ])('fails with its job: %o', async (failure, code, message) => {
    const { id } = await harness.create({});
    harness.error(worker, { retryable: false, ...failure });
    await settled();
    expect(await viewOf(id)).toMatchObject({ status: 'failed', error: { code, message }, output: [] });
  });

  it('is cancelled once, and stays as it is when it has ended', async () => {
    const { id } = await harness.create({});
    expect(await harness.object.cancel(id, null)).toMatchObject({ id, status: 'cancelled' });
    expect(harness.queue.state(id)).toBe('cancelled');
    expect(await harness.object.cancel(id, null)).toMatchObject({ status: 'cancelled' });
    const other = await harness.create({});
    harness.result(worker, engineResponse('Hello'));
    // The object has not been told yet.
    expect(await harness.object.cancel(other.id, null)).toMatchObject({ status: 'completed' });
  });

  describe('has the usage of what was generated when it is cancelled', () => {
    const used = { prompt_tokens: 9, completion_tokens: 4, cached_tokens: 1, estimated: true };
    const usage = {
      ...{ input_tokens: 9, output_tokens: 4, total_tokens: 13 },
      input_tokens_details: { cached_tokens: 1 },
      output_tokens_details: { reasoning_tokens: 0 },
    };
    const report = () =>
      harness.error(worker, { error: 'revoked', code: 'cancelled', retryable: false, usage: used });

    it('in the answer to the cancellation', async () => {
      harness.reportMs = 2000;
      const { id } = await harness.create({});
      const cancelled = harness.object.cancel(id, null);
      await settled();
      report();
      expect(await cancelled).toMatchObject({ status: 'cancelled', usage });
      expect(await viewOf(id)).toEqual(await cancelled);
    });

    it('where its job was cancelled, as soon as the worker has reported', async () => {
      const { id } = await harness.create({});
      harness.queue.queue.do('cancel', id, 'cancelled', null);
      harness.queue.queue.answerListeners();
      await settled();
      expect(await viewOf(id)).toMatchObject({ status: 'cancelled', usage: { total_tokens: 0 } });
      report();
      expect((await viewOf(id)).usage).toEqual(usage);
      harness.restart();
      expect((await viewOf(id)).usage).toEqual(usage);
    });

    it('which is nothing where no engine has begun it', async () => {
      harness.queue.drop(worker);
      const { id } = await harness.create({});
      expect(await harness.object.cancel(id, null)).toMatchObject({ usage: { total_tokens: 0 } });
    });
  });

  it('is not deleted while it runs', async () => {
    const { id } = await harness.create({});
    expect(await harness.object.remove(id, null)).toBe('running');
    await harness.object.cancel(id, null);
    expect(await harness.object.remove(id, null)).toBe('removed');
    expect(await harness.status(id)).toBe('missing');
  });

  it('is only there for its tenant', async () => {
    const { id } = await harness.create({}, 'one');
    expect(await harness.object.get(id, 'two')).toBeNull();
    expect(await harness.object.cancel(id, 'two')).toBeNull();
    expect(await harness.object.events(id, -1, 0, 'two')).toBe('missing');
    expect(await harness.status(id)).toBe('in_progress');
  });

  it('ends once though the object, the queue or both begin again in the middle', async () => {
    const { id } = await harness.create({});
    harness.restart();
    await settled();
    const running = [worker.lastJob()];
    harness.restartAll();
    worker = harness.queue.worker('w', { capacity: 10, jobs: running });
    const { job_id, fence_token } = running[0]!;
    const result = { response: { status: 200, body: engineResponse('Hello') } };
    harness.say(worker, { type: 'job_result', job_id, fence_token, result });
    await harness.advance(2000);
    const row = harness.database.prepare('SELECT status FROM responses WHERE id = ?').get(id);
    expect(row).toMatchObject({ status: 'completed' });
    harness.say(worker, { type: 'job_result', job_id, fence_token, result });
    await harness.advance(2000);
    expect((await viewOf(id)).output).toHaveLength(1);
  });

  it('fails, when its job was never submitted', async () => {
    const { id } = await harness.create({}, null, false);
    await harness.advance(50_000);
    expect(await harness.status(id)).toBe('queued');
    await harness.advance(100_000);
    expect(await viewOf(id)).toMatchObject({ status: 'failed', error: { code: 'server_error' } });
  });

  it('ends where the events of its engine have no form', async () => {
    const { id } = await harness.create({ stream: true });
    const added = { type: 'response.output_item.added' };
    const events = [
      { ...added, output_index: 0 },
      { ...added, output_index: 7, item: {} },
    ];
    const completed = { type: 'response.completed', response: engineResponse('Hello') };
    harness.result(worker, streamOf([...events, completed]));
    await harness.advance(5000);
    expect(await harness.status(id)).toBe('completed');
  });

  it('is read though an item of its output has no form', async () => {
    const { asked } = await harness.begin({});
    const output = [{ id: 'msg_1', json: 'null' }];
    await harness.object.keep(asked, { status: 'completed', body: '{}', output }, null);
    expect((await viewOf(asked.id)).output).toMatchObject([{ id: 'msg_1' }]);
  });

  it('fails, and the others end, where what its engine answered cannot be stored', async () => {
    const bad = await harness.create({});
    const badJob = worker.lastJob();
    const good = await harness.create({});
    const goodJob = worker.lastJob();
    // As on Cloudflare, whose rows have at most 2 MB.
    harness.database.exec(`CREATE TRIGGER items_short BEFORE INSERT ON items WHEN new.json LIKE '%too long%'
      BEGIN SELECT raise(ABORT, 'string or blob too big: SQLITE_TOOBIG'); END`);
    for (const [{ job_id, fence_token }, text] of [
      [badJob, 'too long'],
      [goodJob, 'Hello'],
    ] as const) {
      const result = { response: { status: 200, body: engineResponse(text) } };
      harness.say(worker, { type: 'job_result', job_id, fence_token, result });
    }
    await harness.advance(5000);
    expect(await viewOf(bad.id)).toMatchObject({
      status: 'failed',
      error: { code: 'server_error', message: expect.stringContaining('cannot be stored') },
      output: [],
    });
    expect(await viewOf(good.id)).toMatchObject({ status: 'completed' });
  });

  it('waits for a job that is submitted late', async () => {
    const asked = await harness.create({}, null, false);
    await harness.advance(5000);
    harness.submit(asked);
    harness.result(worker, engineResponse('Hello'));
    await settled();
    expect(await harness.status(asked.id)).toBe('completed');
  });

  it('fails when its deadline passes', async () => {
    harness.queue.drop(worker);
    const asked = await harness.create({}, null, false);
    harness.submit(asked, { deadline_seconds: 30 });
    await harness.advance(31_000);
    const row = harness.database.prepare('SELECT status FROM responses WHERE id = ?').get(asked.id);
    expect(row).toMatchObject({ status: 'failed' });
    expect(await viewOf(asked.id)).toMatchObject({ error: { code: 'server_error' } });
  });

  const ENDS: [string, (id: string) => unknown][] = [
    ['completed', () => harness.result(worker, engineResponse('Hello'))],
    ['incomplete', () => harness.result(worker, engineResponse('Hello', { status: 'incomplete' }))],
    ['failed', () => harness.error(worker, { code: 'engine_refused', error: 'no', retryable: false })],
    ['cancelled', (id) => harness.object.cancel(id, null)],
    ['failed', () => harness.advance(61_000)],
  ];

  it.each(ENDS)('frees its conversation when it is %s', async (status, end) => {
    const conversation = await harness.conversation(null, 'before');
    const asked = await harness.create({ conversation }, null, false);
    const lock = () => harness.object.addItems(conversation, [], null, null, ROOM);
    expect(await lock()).toMatchObject({ code: 'conversation_locked' });
    harness.submit(asked, { deadline_seconds: 60 });
    await settled();
    await end(asked.id);
    await settled();
    expect(await lock()).not.toHaveProperty('code');
    expect(await harness.status(asked.id)).toBe(status);
    const wanted = { after: null, limit: 100, order: 'asc' as const };
    const page = await harness.object.conversationItems(conversation, wanted, null);
    const isKept = status === 'completed' || status === 'incomplete';
    expect((page as { data: unknown[] }).data).toHaveLength(isKept ? 3 : 1);
  });
});
