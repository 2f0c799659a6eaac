import { expect, test } from 'vitest';
import { bounds } from '../../../src/protocol/index.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const CHAT = { messages: [{ role: 'user', content: 'hi' }] };

/** Pushes one chat job with this payload and gives the body the engine gets. */
async function engineBody(payload: object): Promise<Record<string, unknown>> {
  const bench = await new WorkerBench().ready();
  await bench.push({ payload });
  return bench.engine.last.body;
}

test('a chat job reaches the engine with the defaults of the queue and all its other parameters', async () => {
  expect(await engineBody({ ...CHAT, seed: 7, stop: null, stream: true, stream_options: {} })).toEqual({
    ...CHAT,
    seed: 7,
    model: 'tiny',
    temperature: 0.7,
    max_tokens: 512,
    top_p: 1,
    frequency_penalty: 0,
    presence_penalty: 0,
    stream: false,
  });
});

test.each([
  [undefined, 'tiny'],
  ['default', 'tiny'],
  ['config', 'tiny'],
  ['a-lora', 'a-lora'],
])('the model %s is %s to the engine', async (model, served) => {
  expect((await engineBody({ ...CHAT, model })).model).toBe(served);
});

test('a chat result has the form of the base protocol', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ job_type: 'llm_inference' });
  expect(bench.engine.last.call.requestId).toBe('j1');
  bench.engine.last.complete('Paris.');
  await settled();
  const message = { role: 'assistant', content: 'Paris.' };
  expect(bench.results).toEqual([
    {
      type: 'job_result',
      job_id: 'j1',
      fence_token: 1,
      result: {
        status: 'success',
        job_type: 'llm_inference',
        processed_at: '2026-01-01T00:00:00.000Z',
        completion: {
          id: 'chatcmpl-1',
          model: 'tiny',
          choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
          usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 },
        },
      },
      timing: { started_ms: 0 },
      usage: { prompt_tokens: 2, completion_tokens: 3, model: 'tiny' },
    },
  ]);
});

test('a base job without a type is a chat job, unless its task says otherwise', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).readyWithBase();
  await bench.push({ job_type: undefined, payload: { ...CHAT, task: 'openai/chat-completion' } });
  expect(bench.engine.last.body).not.toHaveProperty('task');
  bench.engine.last.complete();
  await settled();
  expect(bench.results[0]?.result).toMatchObject({
    job_type: 'chat_completion',
    task: 'openai/chat-completion',
  });
  await bench.push({ job_id: 'j2', job_type: undefined, payload: { task: 'fal/text-to-image' } });
  expect(bench.errors).toMatchObject([{ job_id: 'j2', error: expect.stringContaining('fal/text-to-image') }]);
});

test.each([
  ['null', { payload: null }, 'invalid_request', /payload: expected an object, got null/],
  ['a list', { payload: [] }, 'invalid_request', /got a list/],
  ['no messages', { payload: {} }, 'invalid_request', /messages: expected an array/],
  ['an unknown type', { job_type: 'paint' }, 'unsupported_job_type', /not "paint"/],
  [
    'an engine request without a path',
    { job_type: 'engine_request', payload: {} },
    'invalid_request',
    /path/,
  ],
])('a job with %s fails for good and says why', async (_case, job, code, message) => {
  const bench = await new WorkerBench().ready();
  await bench.push(job);
  expect(bench.errors).toMatchObject([
    { job_id: 'j1', fence_token: 1, code, retryable: false, error: expect.stringMatching(message) },
  ]);
  expect(bench.worker.running).toBe(0);
});

test.each([
  [400, 'engine_refused', false],
  [404, 'engine_refused', false],
  [429, 'engine_overloaded', true],
  [500, 'engine_error', true],
  [503, 'engine_overloaded', true],
])('the engine answering %i is passed on with status and body', async (status, code, retryable) => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  const body = { error: { message: 'too long', type: 'BadRequestError', param: null, code: status } };
  bench.engine.last.json(status, body);
  await settled();
  expect(bench.errors).toEqual([
    {
      type: 'job_error',
      job_id: 'j1',
      fence_token: 1,
      error: `Error code: ${status} - too long`,
      code,
      retryable,
      http_status: status,
      body,
      timing: { started_ms: 0 },
    },
  ]);
});

test.each([
  ['{"error":"Unauthorized"}', 'Error code: 401 - Unauthorized'],
  ['{"detail":"Not Found"}', 'Error code: 401 - Not Found'],
  ['plain text', 'Error code: 401 - plain text'],
  ['', 'Error code: 401 - no message'],
])('the message is found in an error body %s', async (body, error) => {
  const bench = await new WorkerBench().ready();
  await bench.push();
  bench.engine.last.head(401, 'text/plain').write(body).end();
  await settled();
  expect(bench.errors).toMatchObject([{ error }]);
});

test('an engine that cannot be reached, dies or aborts is a retryable failure, never a result', async () => {
  const codes: unknown[] = [];
  for (const play of [
    (bench: WorkerBench) => bench.engine.last.refuse(),
    (bench: WorkerBench) => bench.engine.last.head(200, 'application/json').write('{"id"').die(),
    (bench: WorkerBench) => bench.engine.last.complete('partial', 'abort'),
    (bench: WorkerBench) => bench.engine.last.json(200, { choices: [{ index: 0, finish_reason: null }] }),
    (bench: WorkerBench) => bench.engine.last.json(200, 'nonsense'),
  ]) {
    const bench = await new WorkerBench().ready();
    await bench.push();
    play(bench);
    await settled();
    expect(bench.results).toEqual([]);
    codes.push([bench.errors[0]?.code, bench.errors[0]?.retryable]);
  }
  expect(codes).toEqual([
    ['engine_unreachable', true],
    ['engine_died', true],
    ['engine_died', true],
    ['engine_died', true],
    ['engine_error', true],
  ]);
});

test('an engine request reaches the engine byte for byte and its answer is the result', async () => {
  const bench = await new WorkerBench().ready();
  const body = '{"model":"tiny","input":"x", "seed":12345678901234567890}';
  const payload = { path: '/v1/embeddings', body, content_type: 'application/json' };
  await bench.push({ job_type: 'engine_request', payload });
  const { call } = bench.engine.last;
  expect([call.method, call.path, call.body]).toEqual(['POST', '/v1/embeddings', body]);
  bench.engine.last.json(200, { data: [1] });
  await settled();
  expect(bench.results[0]?.result).toMatchObject({
    status: 'success',
    job_type: 'engine_request',
    response: { status: 200, content_type: 'application/json', body: { data: [1] } },
  });
});

test('an engine request that names the config gets the served model and keeps every other byte', async () => {
  const bench = await new WorkerBench().ready();
  const body = '{ "seed":12345678901234567890, "model" : "config","messages":[{"model":"config"}]}';
  await bench.push({ job_type: 'engine_request', payload: { path: '/v1/chat/completions', body } });
  expect(bench.engine.last.call.body).toBe(body.replace('"model" : "config"', '"model" : "tiny"'));
});

test('a payload is fetched from its address', async () => {
  const bench = await new WorkerBench().ready();
  bench.fetch = async (url) => {
    expect(url).toBe('https://files/payload');
    return new Response(JSON.stringify({ ...CHAT, seed: 5 }));
  };
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  expect(bench.engine.last.body.seed).toBe(5);
});

test.each([
  ['refused', async () => new Response('gone', { status: 403 }), /HTTP 403/],
  ['not JSON', async () => new Response('<html>'), /JSON/],
  ['too large', async () => new Response(Buffer.alloc(bounds.PAYLOAD_BYTES + 1)), /more than/],
])('a payload that is %s fails the job with that reason', async (_case, fetch, reason) => {
  const bench = await new WorkerBench().ready();
  bench.fetch = fetch;
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  while (bench.errors.length === 0) await settled();
  expect(bench.errors).toMatchObject([{ code: 'payload_unreachable', retryable: false }]);
  expect(bench.errors[0]?.error).toMatch(reason);
  expect(bench.engine.exchanges).toEqual([]);
});

test('a payload whose server is away for a moment is asked for again', async () => {
  const bench = await new WorkerBench().ready();
  let asked = 0;
  bench.fetch = async () => {
    asked += 1;
    if (asked === 1) throw new Error('fetch failed', { cause: new Error('ECONNREFUSED') });
    return asked === 2 ? new Response('restarting', { status: 503 }) : new Response(JSON.stringify(CHAT));
  };
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  await bench.live(3000);
  expect(asked).toBe(3);
  bench.engine.last.complete();
  await settled();
  expect(bench.results).toMatchObject([{ timing: { started_ms: 3000 } }]);
});

test('a payload is asked for again where a connection died in silence', async () => {
  const bench = await new WorkerBench().ready();
  let asked = 0;
  bench.fetch = (_url, init) => {
    asked += 1;
    if (asked === 2) return Promise.resolve(new Response(JSON.stringify(CHAT)));
    return new Promise((_resolve, reject) => {
      init?.signal?.addEventListener('abort', () => reject(init.signal?.reason));
    });
  };
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  await bench.live(12_000);
  expect(asked).toBe(2);
  expect(bench.engine.exchanges).toHaveLength(1);
  expect(bench.errors).toEqual([]);
});

test('a payload whose server stays away fails the attempt, and another may be made', async () => {
  const bench = await new WorkerBench().ready();
  const asked: number[] = [];
  const startedAt = bench.clock.now();
  bench.fetch = () => {
    asked.push((bench.clock.now() - startedAt) / 1000);
    return Promise.reject(new Error('fetch failed', { cause: new Error('ECONNREFUSED') }));
  };
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  await bench.live(30_000);
  expect(asked).toEqual([0, 1, 3, 7, 12, 17, 22, 27]);
  expect(bench.errors).toMatchObject([
    { code: 'payload_unreachable', retryable: true, error: expect.stringContaining('ECONNREFUSED') },
  ]);
  expect(bench.engine.exchanges).toEqual([]);
});

test('a payload is not asked for any more when its job is revoked', async () => {
  const bench = await new WorkerBench().ready();
  let asked = 0;
  bench.fetch = () => {
    asked += 1;
    return Promise.reject(new Error('fetch failed'));
  };
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  bench.queue.push({ type: 'job_revoked', job_id: 'j1', reason: 'cancelled' });
  await bench.live(30_000);
  expect(asked).toBe(1);
  expect(bench.errors).toEqual([]);
});

test('a payload that does not come within thirty seconds fails the job', async () => {
  const bench = await new WorkerBench().ready();
  bench.fetch = (_url, init) =>
    new Promise((_resolve, reject) => {
      init?.signal?.addEventListener('abort', () => reject(init.signal?.reason));
    });
  await bench.push({ payload: null, payload_url: 'https://files/payload' });
  await bench.clock.advance(29_999);
  expect(bench.errors).toEqual([]);
  await bench.clock.advance(1);
  await settled();
  expect(bench.errors).toMatchObject([{ error: expect.stringContaining('no answer within 30 s') }]);
});

test('a base queue never gets a frame larger than it takes', async () => {
  const bench = await new WorkerBench().readyWithBase();
  await bench.push();
  bench.engine.last.complete('x'.repeat(bounds.BASE_QUEUE_FRAME_BYTES));
  await settled();
  expect(bench.results).toEqual([]);
  expect(bench.errors).toEqual([
    { type: 'job_error', job_id: 'j1', fence_token: 1, error: expect.stringContaining('larger than') },
  ]);
});

test('a base queue is told neither times nor tokens, which it does not know', async () => {
  const bench = await new WorkerBench().readyWithBase();
  await bench.push({ job_type: undefined });
  bench.engine.last.complete();
  await settled();
  expect(Object.keys(bench.results[0]!).sort()).toEqual(['fence_token', 'job_id', 'result', 'type']);
});
