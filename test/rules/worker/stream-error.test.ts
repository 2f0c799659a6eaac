import { expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

/** An engine that fails after it has begun to answer says so in an event, and then ends as if all were well. */

const EVENTS = 'text/event-stream; charset=utf-8';
const TEXT = 'data: {"choices":[{"index":0,"delta":{"content":"Par"},"finish_reason":null}]}\n\n';
const DONE = 'data: [DONE]\n\n';
const DEAD = 'data: {"error":{"message":"EngineCore encountered an issue.","type":"x","code":500}}\n\n';
const REFUSED = 'data: {"error": {"message": "too long", "type": "BadRequestError", "code": 400}}\n\n';
const STORED = { ...STREAM_JOB, mode: 'persisted', stream_id: undefined };

/** What comes of a request whose engine writes these events. */
async function answered(job: object, events: string[], isHealthy: boolean): Promise<WorkerBench> {
  const bench = await new WorkerBench().ready();
  bench.engine.healthy = isHealthy;
  await bench.push(job);
  const exchange = bench.engine.last.head(200, EVENTS);
  for (const event of events) {
    exchange.write(event);
    await bench.clock.advance(0);
  }
  exchange.end();
  await bench.clock.advance(0);
  await settled();
  return bench;
}

test.each([
  ['of an engine that dies', DEAD, false, { code: 'engine_died', retryable: true }],
  [
    'of an engine that lives on',
    DEAD,
    true,
    { code: 'engine_error', retryable: true, http_status: 500, error: expect.stringMatching(/EngineCore/) },
  ],
  [
    'about the request',
    REFUSED,
    true,
    { code: 'engine_refused', retryable: false, http_status: 400, error: 'Error code: 400 - too long' },
  ],
  ['without a status', 'data: {"error":"gone"}\n\n', true, { code: 'engine_error', retryable: true }],
  [
    'with a status that is none',
    'data: {"error":{"message":"x","code":"context_length"}}\n\n',
    true,
    { code: 'engine_error', http_status: 500 },
  ],
])(
  'a stored job never succeeds with half an answer and an error %s',
  async (_case, event, isHealthy, error) => {
    for (const before of [[], [TEXT]]) {
      const bench = await answered(STORED, [...before, event, DONE], isHealthy);
      expect(bench.results).toEqual([]);
      expect(bench.errors).toMatchObject([error]);
    }
  },
);

test('a stored job of any route fails with the error among its events', async () => {
  const job = { ...STORED, payload: { path: '/v1/audio/transcriptions', body: '{}' } };
  const bench = await answered(job, ['data: {"text":"a"}\n\n', REFUSED], true);
  expect(bench.errors).toMatchObject([{ code: 'engine_refused' }]);
});

test.each([
  ['of an engine that dies', DEAD, false, 'engine_died'],
  ['about the request', REFUSED, true, 'engine_refused'],
])(
  'after its first bytes a caller gets the error %s as it is, and the job fails',
  async (_case, event, isHealthy, code) => {
    const bench = await answered(STREAM_JOB, [TEXT, event, DONE], isHealthy);
    expect(bench.relay.bytesOf(7)).toBe(TEXT + event + DONE);
    expect(bench.relay.records.at(-1)?.type).toBe('end');
    expect(bench.results).toEqual([]);
    expect(bench.errors).toMatchObject([{ code }]);
  },
);

test('before its first byte a dying engine breaks the answer for another attempt', async () => {
  const bench = await answered(STREAM_JOB, [DEAD, DONE], false);
  expect(bench.relay.bytesOf(7)).toBe('');
  expect(bench.relay.records.at(-1)).toMatchObject({
    type: 'broken',
    reason: { code: 'engine_died', retryable: true },
  });
  expect(bench.errors).toMatchObject([{ code: 'engine_died', retryable: true }]);
});

test('before its first byte an error of an engine that lives on is the answer', async () => {
  for (const event of [REFUSED, DEAD]) {
    const bench = await answered(STREAM_JOB, [event, DONE], true);
    expect(bench.relay.bytesOf(7)).toBe(event + DONE);
    expect(bench.relay.records.at(-1)?.type).toBe('end');
    expect(bench.errors).toHaveLength(1);
  }
});

test('an error that is cut off before its end breaks the answer', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push(STREAM_JOB);
  bench.engine.last.head(200, EVENTS).write(TEXT).write('data: {"error":{"mess').die();
  await bench.clock.advance(0);
  expect(bench.relay.bytesOf(7)).toBe(TEXT);
  expect(bench.relay.records.at(-1)).toMatchObject({ type: 'broken', reason: { code: 'engine_died' } });
});

const MESSAGES_START = 'event: message_start\ndata: {"type":"message_start","message":{}}\n\n';
const RESPONSE_START =
  'event: response.created\ndata: {"response":{"error":null},"type":"response.created"}\n\n';
const OVERLOADED =
  'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n';
const FAILED =
  'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"code":"server_error","message":"lost"}}}\n\n';

test.each([
  [
    '/v1/messages',
    MESSAGES_START,
    OVERLOADED,
    { code: 'engine_overloaded', error: /busy/, http_status: 503 },
  ],
  ['/v1/responses', RESPONSE_START, FAILED, { code: 'engine_error', error: /lost/, http_status: 500 }],
])(
  'a stream of %s that fails is passed on as it is, and its job fails',
  async (path, start, event, error) => {
    const payload = { path, body: '{"stream":true}' };
    const bench = await answered({ ...STREAM_JOB, payload }, [start, event], true);
    expect(bench.relay.bytesOf(7)).toBe(start + event);
    expect(bench.results).toEqual([]);
    expect(bench.errors).toMatchObject([{ ...error, error: expect.stringMatching(error.error) }]);
    const stored = await answered({ ...STORED, payload }, [start, event], true);
    expect(stored.results).toEqual([]);
    expect(stored.errors).toMatchObject([{ code: error.code }]);
  },
);

test('a response that only reached its limit succeeds', async () => {
  const incomplete =
    'event: response.incomplete\ndata: {"type":"response.incomplete","response":{"error":null,"usage":{"input_tokens":5,"output_tokens":6}}}\n\n';
  const payload = { path: '/v1/responses', body: '{"stream":true}' };
  const bench = await answered({ ...STREAM_JOB, payload }, [RESPONSE_START, incomplete], true);
  expect(bench.results).toMatchObject([{ usage: { prompt_tokens: 5, completion_tokens: 6 } }]);
});

test.each([
  ['/v1/messages', MESSAGES_START, 'event: message_stop\ndata: {"type":"message_stop"}\n\n'],
  [
    '/v1/responses',
    RESPONSE_START,
    'event: response.completed\ndata: {"response":{},"type":"response.completed"}\n\n',
  ],
])('a stream of %s that is cut off before its end fails, and succeeds with it', async (path, start, end) => {
  const payload = { path, body: '{"stream":true}' };
  for (const job of [STREAM_JOB, STORED]) {
    const cut = await answered({ ...job, payload }, [start], true);
    expect(cut.results).toEqual([]);
    expect(cut.errors).toMatchObject([{ code: 'engine_died', retryable: true }]);
    const whole = await answered({ ...job, payload }, [start, end], true);
    expect(whole.errors).toEqual([]);
    expect(whole.results).toHaveLength(1);
  }
});
