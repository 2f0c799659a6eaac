import { expect, test } from 'vitest';
import { WorkerBench } from '../../support/worker-fakes.ts';

const EVENTS = 'text/event-stream; charset=utf-8';
const BODY = '{"messages":[],"stream":true}';
const JOB = {
  job_id: 'j1',
  fence_token: 1,
  mode: 'transient',
  job_type: 'engine_request',
  stream_id: 7,
  account: '["team","laptop"]',
  payload: { method: 'POST', path: '/v1/chat/completions', body: BODY },
};
const CHUNK = 'data: {"model":"tiny","choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n';
const USAGE =
  'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}\n\n';
const DONE = 'data: [DONE]\n\n';
const COUNTED = { prompt_tokens: 7, completion_tokens: 3, cached_tokens: 5, model: 'tiny' };

async function pushed(job: object = {}): Promise<WorkerBench> {
  const bench = await new WorkerBench({ capacity: 4 }).ready();
  await bench.push({ ...JOB, ...job });
  return bench;
}

async function answered(bench: WorkerBench, ...texts: string[]): Promise<void> {
  bench.engine.last.head(200, EVENTS);
  for (const text of texts) bench.engine.last.write(text);
  bench.engine.last.end();
  await bench.clock.advance(50);
}

test('a stream is counted though its caller did not ask, and does not get what it did not ask for', async () => {
  const bench = await pushed();
  expect(bench.engine.last.body).toEqual({
    messages: [],
    stream: true,
    stream_options: { include_usage: true },
  });
  await answered(bench, CHUNK, USAGE + DONE);
  expect(bench.relay.bytesOf(7)).toBe(CHUNK + DONE);
  expect(bench.results).toMatchObject([
    { usage: COUNTED, account: '["team","laptop"]', result: { answer_bytes: (CHUNK + DONE).length } },
  ]);
});

test('events that go joined to the relay go without it too', async () => {
  const bench = await new WorkerBench({
    capacity: 4,
    streamInterval: { minMs: 20, maxMs: 20, rampEvents: 0, manyStreams: 1 },
  }).ready();
  await bench.push(JOB);
  await answered(bench, CHUNK, CHUNK, CHUNK + USAGE.slice(0, 30), USAGE.slice(30), DONE);
  expect(bench.relay.bytesOf(7)).toBe(CHUNK + CHUNK + CHUNK + DONE);
});

test('a caller that asked gets it', async () => {
  const body = '{"stream":true,"stream_options":{"include_usage":true}}';
  const bench = await pushed({ payload: { ...JOB.payload, body } });
  expect(String(bench.engine.last.call.body)).toBe(body);
  await answered(bench, CHUNK, USAGE, DONE);
  expect(bench.relay.bytesOf(7)).toBe(CHUNK + USAGE + DONE);
  expect(bench.results).toMatchObject([{ usage: COUNTED }]);
});

test('a stored stream is kept and watched without it', async () => {
  const bench = await pushed({ mode: 'persisted' });
  await answered(bench, CHUNK, USAGE, DONE);
  expect(bench.relay.bytesOf(7)).toBe(CHUNK + DONE);
  expect(bench.results).toMatchObject([{ usage: COUNTED, result: { response: { body: CHUNK + DONE } } }]);
});

test('an engine that may refuse two fields is asked once more for one request, and so found out', async () => {
  const bench = await new WorkerBench({ capacity: 4, moves: true }).ready();
  const body = '{"messages":[{"role":"user","content":"a"}],"max_tokens":3,"stream":true}';
  const asked = () => Object.keys(bench.engine.last.body as object).slice(3);
  const refused = async () => {
    bench.engine.last.json(400, { error: 'extra fields are not permitted' });
    await bench.clock.advance(0);
  };
  const pushed = (n: number) =>
    bench.push({ ...JOB, job_id: `j${n}`, fence_token: n, stream_id: n, payload: { ...JOB.payload, body } });
  await pushed(1);
  const seen = [asked().sort()];
  await refused();
  seen.push(asked());
  await answered(bench, CHUNK, DONE);
  await pushed(2);
  seen.push(asked());
  await refused();
  seen.push(asked());
  await answered(bench, CHUNK, DONE);
  await pushed(3);
  seen.push(asked());
  expect(seen).toEqual([['return_token_ids', 'stream_options'], [], ['stream_options'], [], []]);
});

test('an engine that refuses the field is asked without it, now and from then on', async () => {
  const bench = await pushed();
  bench.engine.last.json(400, { error: 'stream_options: extra fields are not permitted' });
  await bench.clock.advance(0);
  expect(String(bench.engine.last.call.body)).toBe(BODY);
  await answered(bench, CHUNK, CHUNK, CHUNK, DONE);
  expect(bench.relay.bytesOf(7)).toBe(CHUNK + CHUNK + CHUNK + DONE);
  expect(bench.results).toMatchObject([
    { usage: { prompt_tokens: 0, completion_tokens: 2, estimated: true } },
  ]);
  await bench.push({ ...JOB, job_id: 'j2', fence_token: 2, stream_id: 8 });
  expect([bench.engine.exchanges.length, String(bench.engine.last.call.body)]).toEqual([3, BODY]);
});

test('an engine that has taken the field is not asked twice for a caller’s mistake', async () => {
  const bench = await pushed();
  await answered(bench, CHUNK, USAGE, DONE);
  await bench.push({ ...JOB, job_id: 'j2', fence_token: 2, stream_id: 8 });
  bench.engine.last.json(400, { error: { message: 'too long' } });
  await bench.clock.advance(0);
  expect(bench.engine.exchanges).toHaveLength(2);
  expect(JSON.parse(bench.relay.bytesOf(8))).toEqual({ error: { message: 'too long' } });
});

test('what a caller got that hung up is told, as the least that it can be', async () => {
  const bench = await pushed();
  bench.engine.last.head(200, EVENTS).write(CHUNK).write(CHUNK).write(CHUNK);
  await bench.clock.advance(0);
  bench.relay.pushRecords({ type: 'cancel', stream: 7, reason: 'caller_gone' });
  await bench.clock.advance(0);
  expect(bench.errors).toMatchObject([
    { code: 'cancelled', account: '["team","laptop"]', usage: { completion_tokens: 2, estimated: true } },
  ]);
});

test('a response or a message that is streamed tells its usage unasked', async () => {
  const bench = await pushed({ payload: { ...JOB.payload, path: '/v1/messages' } });
  expect(String(bench.engine.last.call.body)).toBe(BODY);
  const start =
    'event: message_start\ndata: {"message":{"model":"tiny","usage":{"input_tokens":7,"output_tokens":1}}}\n\n';
  const delta = 'event: message_delta\ndata: {"usage":{"output_tokens":3}}\n\n';
  const stop = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';
  await answered(bench, start, delta, stop);
  expect(bench.relay.bytesOf(7)).toBe(start + delta + stop);
  expect(bench.results).toMatchObject([{ usage: { prompt_tokens: 7, completion_tokens: 3, model: 'tiny' } }]);
});

test('a body into which nothing can be put fails as the caller’s mistake, and is not tried again', async () => {
  const body = `{"stream":true,"${'x'.repeat(400)}\\q":1}`;
  const bench = await pushed({ payload: { ...JOB.payload, body } });
  expect(bench.errors).toMatchObject([{ code: 'invalid_request', retryable: false }]);
});
