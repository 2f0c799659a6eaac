import { expect, test } from 'vitest';
import { inferenceRoutes } from '../../../src/protocol/index.ts';
import { RUNPOD_DEFAULTS } from '../../../src/worker/run/runpod-input.ts';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

const request = (payload: object, more: object = {}) => ({
  job_type: 'engine_request',
  payload: { body: '{}', ...payload },
  ...more,
});

test.each([
  ...['/sleep', '/collective_rpc', '/metrics', '/v1/load_lora_adapter', '/pause', '/v1/completionsx'],
  ...['/../../sleep', '/v1/../sleep', '//sleep', '/v1//completions', '/v1/%2e%2e/sleep', '/v1/.%2E/sleep'],
  ...['/v1\\..\\sleep', '/v1/%5csleep', '/v1/completions%2f..%2fsleep', '/v1/completions/../../sleep'],
  ...[
    '/v1/completions x',
    '/v1/completions\r\nx: y',
    '/v1/completions#x',
    '/v1/cömpletions',
    'v1/completions',
  ],
  ...['http://127.0.0.1/v1/completions', '/http://127.0.0.1/v1/completions', ''],
])('the engine is not asked for %j, whoever sent the job', async (path) => {
  for (const start of ['ready', 'readyWithBase'] as const) {
    const bench = await new WorkerBench()[start]();
    await bench.push(request({ path }));
    expect(bench.engine.exchanges).toEqual([]);
    expect(bench.errors).toHaveLength(1);
    expect(bench.errors[0]!.error).toMatch(/^payload.path: /);
    if (start === 'ready')
      expect(bench.errors[0]).toMatchObject({ code: 'invalid_request', retryable: false });
  }
});

test('a route of another method is not asked for either, and one with a query is', async () => {
  const bench = await new WorkerBench({ capacity: 3 }).ready();
  await bench.push(request({ method: 'DELETE', path: '/v1/completions' }, { job_id: 'a' }));
  expect(bench.errors).toMatchObject([{ job_id: 'a', code: 'invalid_request' }]);
  await bench.push(request({ method: 'GET', path: '/v1/models?x=%20' }, { job_id: 'b', fence_token: 2 }));
  expect(bench.engine.last.call.path).toBe('/v1/models?x=%20');
});

test('a content type that is none is refused, and its caller told', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({
    ...STREAM_JOB,
    payload: { path: '/v1/completions', body: '{}', content_type: 'a/b\r\nx: y' },
  });
  await bench.clock.advance(0);
  expect(bench.engine.exchanges).toEqual([]);
  expect(bench.relay.records).toMatchObject([
    { type: 'broken', stream: 7, reason: { code: 'invalid_request', retryable: false } },
  ]);
});

test('a redirect fails a job whose result would have no place for it', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push(request({ path: '/v1/completions' }));
  bench.engine.last.head(307, 'text/plain').end();
  await settled();
  expect(bench.errors).toMatchObject([{ code: 'engine_refused', retryable: false, http_status: 307 }]);
});

test.each([404, 429])(
  'an error %i that is labelled as a stream is an error with its status',
  async (status) => {
    const error = 'data: {"error":{"message":"slow down","type":"x"}}\n\n';
    const bench = await new WorkerBench({ capacity: 2 }).ready();
    await bench.push(STREAM_JOB);
    bench.engine.last.head(status, 'text/event-stream').write(error).end();
    await bench.clock.advance(0);
    expect(bench.relay.bytesOf(7)).toBe(error);
    expect(bench.relay.records).toMatchObject([
      { type: 'head', head: { status } },
      { type: 'bytes' },
      { type: 'end' },
    ]);
    await bench.push({ ...STREAM_JOB, job_id: 'j2', mode: 'persisted', stream_id: undefined });
    bench.engine.last.head(status, 'text/event-stream').write(error).end();
    await bench.clock.advance(0);
    await settled();
    expect(bench.errors).toMatchObject([
      {
        job_id: 'j2',
        http_status: status,
        retryable: status === 429,
        error: expect.stringMatching(/slow down$/),
      },
    ]);
  },
);

test('an answer larger than what is passed on in one piece fails as the answer it is', async () => {
  const bench = await new WorkerBench({ capacity: 2 }).ready();
  const body = `["${'x'.repeat(20 * 1024 * 1024)}"]`;
  await bench.push({ ...STREAM_JOB, payload: { path: '/v1/embeddings', body: '{}' } });
  bench.engine.last.head(200, 'application/json').write(body).end();
  await bench.clock.advance(0);
  const error = /^the engine's answer is larger than 20 MiB.*fewer inputs/;
  expect(bench.relay.records).toMatchObject([
    {
      type: 'broken',
      reason: { code: 'engine_error', retryable: false, message: expect.stringMatching(error) },
    },
  ]);
  await bench.push({ ...request({ path: '/v1/embeddings' }), job_id: 'j2' });
  bench.engine.last.head(200, 'application/json').write(body).end();
  await settled();
  expect(bench.errors.at(-1)).toMatchObject({ code: 'engine_error', error: expect.stringMatching(error) });
});

test.each([
  ['text/plain', '42', '42'],
  ['text/plain; charset=utf-8', '{"a":1}', '{"a":1}'],
  ['application/json', '42', 42],
])('a stored result keeps a body of the type %s as it is meant: %s', async (type, text, body) => {
  const bench = await new WorkerBench().ready();
  await bench.push(request({ path: '/v1/audio/transcriptions' }));
  bench.engine.last.head(200, type).write(text).end();
  await settled();
  expect(bench.results).toMatchObject([{ result: { response: { body } } }]);
});

test('silence has no text on a route that an operator has added under another prefix, too', async () => {
  const routes = inferenceRoutes('+POST /v3/audio/transcriptions');
  const bench = await new WorkerBench({ runpod: { ...RUNPOD_DEFAULTS, routes } }).ready();
  await bench.push(request({ path: '/v3/audio/transcriptions' }));
  bench.engine.last.head(200, 'text/plain').end();
  await settled();
  expect(bench.results).toMatchObject([{ result: { response: { status: 200, body: '' } } }]);
});

test('the engine is told the priority that the queue went by, unless the request names one in a header', async () => {
  const bench = await new WorkerBench({ capacity: 3 }).ready();
  const told = async (more: object, payload: object = {}) => {
    await bench.push(request({ path: '/v1/completions', ...payload }, more));
    return bench.engine.last.call.headers?.['x-vllm-priority'];
  };
  expect(await told({ job_id: 'a', priority: 7 })).toBe('-7');
  expect(await told({ job_id: 'b', fence_token: 2 })).toBeUndefined();
  const own = { headers: { 'X-Vllm-Priority': '3' } };
  expect(await told({ job_id: 'c', fence_token: 3, priority: -4 }, own)).toBe('3');
});
