import { expect, test } from 'vitest';
import type { RunpodSettings } from '../../../src/worker/run/runpod-input.ts';
import { RUNPOD_DEFAULTS } from '../../../src/worker/run/runpod-input.ts';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

const EVENTS = 'text/event-stream; charset=utf-8';
const DONE = 'data: [DONE]\n\n';

async function running(input: object, job: object = {}, runpod: Partial<RunpodSettings> = {}) {
  const bench = await new WorkerBench({ runpod: { ...RUNPOD_DEFAULTS, ...runpod } }).ready();
  await bench.push({ job_type: 'runpod', payload: { input }, ...job });
  return bench;
}

const outputOf = (bench: WorkerBench) => bench.results[0]?.result?.output;

const event = (chunk: object) => `data: ${JSON.stringify(chunk)}\n\n`;
const usage = (completion_tokens: number) => ({ prompt_tokens: 4, completion_tokens });
const textChunk = (text: string, count: number, index = 0) =>
  event({ choices: [{ index, text }], usage: usage(count) });
const chatChunk = (content: string, count: number, more = {}) =>
  event({ id: 'c', choices: [{ index: 0, delta: { content }, ...more }], usage: usage(count) });

/** Writes the events one by one, so that each has its own time. */
async function answer(bench: WorkerBench, ...events: string[]): Promise<void> {
  bench.engine.last.head(200, EVENTS);
  for (const text of events) {
    bench.engine.last.write(text);
    await bench.clock.advance(0);
  }
  bench.engine.last.write(DONE).end();
  await bench.clock.advance(0);
}

test('a prompt gives its tokens and usage in RunPod’s form', async () => {
  const bench = await running({ prompt: 'Hi' });
  bench.engine.last.json(200, {
    choices: [{ index: 0, text: 'Hello', finish_reason: 'stop' }],
    usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 },
  });
  await settled();
  expect(bench.results[0]).toMatchObject({
    result: {
      status: 'success',
      job_type: 'runpod',
      output: [{ choices: [{ tokens: ['Hello'] }], usage: { input: 4, output: 2 } }],
    },
  });
});

test('audio is an output in base64, with its type', async () => {
  const bench = await running({ route: '/v1/audio/speech', body: { model: 'm', input: 'Hi', voice: 'v' } });
  bench.engine.last
    .head(200, 'audio/mpeg')
    .writeBytes(Buffer.from([0xff, 0xfb, 0x90]))
    .end();
  await settled();
  expect(outputOf(bench)).toEqual([{ content_type: 'audio/mpeg', body_base64: '//uQ' }]);
});

test('several answers stand in the order of their index', async () => {
  const bench = await running({ messages: [{ role: 'user', content: 'Hi' }], sampling_params: { n: 2 } });
  bench.engine.last.json(200, {
    choices: [
      { index: 1, message: { content: 'b' }, finish_reason: 'stop' },
      { index: 0, message: { content: 'a' }, finish_reason: 'stop' },
    ],
    usage: usage(2),
  });
  await settled();
  expect(outputOf(bench)).toEqual([
    { choices: [{ tokens: ['a'] }, { tokens: ['b'] }], usage: { input: 4, output: 2 } },
  ]);
});

test('streamed tokens come in batches that grow, each with the usage so far', async () => {
  const bench = await running({ prompt: 'Hi', stream: true });
  await answer(
    bench,
    ...['a', 'b', 'c', 'd', 'e'].map((text, at) => textChunk(text, at + 1)),
    event({ choices: [], usage: usage(5) }),
  );
  expect(outputOf(bench)).toEqual([
    { choices: [{ tokens: ['a'] }], usage: { input: 4, output: 1 } },
    { choices: [{ tokens: ['b', 'c', 'd'] }], usage: { input: 4, output: 4 } },
    { choices: [{ tokens: ['e'] }], usage: { input: 4, output: 5 } },
  ]);
});

test('an engine that counts only at the end has its pieces counted', async () => {
  const bench = await running({ prompt: 'Hi', stream: true, batch_size: 2 });
  await answer(
    bench,
    event({ choices: [{ index: 0, text: 'a' }] }),
    event({ choices: [{ index: 0, text: 'b' }] }),
  );
  expect(outputOf(bench)).toEqual([{ choices: [{ tokens: ['a', 'b'] }], usage: { input: 0, output: 2 } }]);
});

test('each choice of a stream has its own tokens', async () => {
  const bench = await running({ prompt: 'Hi', stream: true, batch_size: 3, sampling_params: { n: 2 } });
  await answer(bench, textChunk('a', 1), textChunk('x', 2, 1), textChunk('b', 3));
  expect(outputOf(bench)).toEqual([
    { choices: [{ tokens: ['a', 'b'] }, { tokens: ['x'] }], usage: { input: 4, output: 3 } },
  ]);
});

test('a stream without text still tells its usage', async () => {
  const bench = await running({ prompt: 'Hi', stream: true });
  await answer(bench, event({ choices: [], usage: usage(1) }));
  expect(outputOf(bench)).toEqual([{ choices: [{ tokens: [] }], usage: { input: 4, output: 1 } }]);
});

test('use_openai_format gives chunks whose contents are lists', async () => {
  const bench = await running({ prompt: 'Hi', stream: true, use_openai_format: true, batch_size: 2 });
  await answer(
    bench,
    event({ id: 'c', choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] }),
    chatChunk('a', 1),
    chatChunk('b', 2),
    chatChunk('c', 3, { finish_reason: 'stop' }),
    event({ id: 'c', choices: [], usage: usage(3) }),
  );
  expect(outputOf(bench)).toEqual([
    { id: 'c', choices: [{ index: 0, delta: { content: ['a', 'b'] } }], usage: usage(2) },
    { id: 'c', choices: [{ index: 0, delta: { content: ['c'] }, finish_reason: 'stop' }], usage: usage(3) },
  ]);
});

test('use_openai_format without a stream gives the engine’s body', async () => {
  const bench = await running({ prompt: 'Hi', use_openai_format: true });
  bench.engine.last.complete('Hello');
  await settled();
  expect(outputOf(bench)).toMatchObject([{ object: 'chat.completion', usage: { total_tokens: 5 } }]);
});

const CHAT = { openai_route: '/v1/chat/completions', openai_input: { messages: [], stream: true } };

test('openai_route gives the text of events in batches, the end mark included', async () => {
  const bench = await running(CHAT);
  const events = ['a', 'b', 'c', 'd'].map((text, at) => chatChunk(text, at));
  await answer(bench, ...events);
  expect(outputOf(bench)).toEqual([events[0], events.slice(1).join(''), DONE]);
});

test('openai_route gives lists of chunks with RAW_OPENAI_OUTPUT=0', async () => {
  const bench = await running(CHAT, {}, { isRawOpenAI: false });
  const events = ['a', 'b'].map((text, at) => chatChunk(text, at));
  await answer(bench, ...events);
  expect(outputOf(bench)).toEqual(events.map((text) => [JSON.parse(text.slice(6))]));
});

test('route gives each event as it comes, whole and without comments, and a plain answer as it is', async () => {
  const streamed = await running({ route: '/v1/messages', body: { stream: true } });
  await answer(streamed, ': keep-alive\n\n', 'event: a\nda', 'ta: {}\n\nevent: b\ndata: {}\n\n');
  expect(outputOf(streamed)).toEqual(['event: a\ndata: {}\n\n', 'event: b\ndata: {}\n\n', DONE]);
  const commented = await running({ prompt: 'Hi', stream: true });
  await answer(commented, `: keep-alive\n${textChunk('a', 1)}`, `:\r\n${textChunk('b', 2)}`);
  expect(outputOf(commented)).toMatchObject([
    { choices: [{ tokens: ['a'] }] },
    { choices: [{ tokens: ['b'] }] },
  ]);
  const plain = await running({ route: '/v1/models' });
  plain.engine.last.json(200, { data: [] });
  await settled();
  expect(outputOf(plain)).toEqual([{ data: [] }]);
});

test('what a watched job yields goes to its replay buffer at once, an event each, and is its result', async () => {
  const bench = await running({ prompt: 'Hi', stream: true, batch_size: 1 }, { stream_id: 7 });
  bench.engine.last.head(200, EVENTS).write(textChunk('a', 1));
  await bench.clock.advance(0);
  const first = { choices: [{ tokens: ['a'] }], usage: { input: 4, output: 1 } };
  expect(bench.relay.bytesOf(7)).toBe(event({ output: first }));
  expect(bench.results).toEqual([]);
  bench.engine.last.write(textChunk('b', 2)).write(DONE).end();
  await bench.clock.advance(0);
  const second = { choices: [{ tokens: ['b'] }], usage: { input: 4, output: 2 } };
  expect(bench.relay.bytesOf(7)).toBe(event({ output: first }) + event({ output: second }));
  expect(bench.relay.records.at(-1)).toMatchObject({ type: 'end', stream: 7 });
  expect(outputOf(bench)).toEqual([first, second]);
});

test('characters that are cut between two pieces stay whole', async () => {
  const bench = await running({ prompt: 'Hi', stream: true });
  const bytes = Buffer.from(textChunk('ä€', 1));
  const cut = bytes.indexOf(Buffer.from('€')) + 1;
  const { last } = bench.engine;
  last.head(200, EVENTS);
  for (const piece of [bytes.subarray(0, cut), bytes.subarray(cut)]) last.writeBytes(piece);
  last.write(DONE).end();
  await bench.clock.advance(0);
  expect(outputOf(bench)).toMatchObject([{ choices: [{ tokens: ['ä€'] }] }]);
});

test('an error of the engine fails the job with its message', async () => {
  const bench = await running({ prompt: 'Hi', sampling_params: { temperature: -1 } });
  bench.engine.last.json(400, { error: { message: 'temperature must be non-negative', code: 400 } });
  await settled();
  expect(bench.errors).toMatchObject([
    { error: 'Error code: 400 - temperature must be non-negative', http_status: 400, retryable: false },
  ]);
});

test('a stream that the engine breaks off is no result', async () => {
  const bench = await running({ prompt: 'Hi', stream: true });
  bench.engine.last.head(200, EVENTS).write(textChunk('a', 1)).end();
  await settled();
  expect(bench.errors).toMatchObject([{ code: 'engine_died', retryable: true }]);
  expect(bench.results).toEqual([]);
});

test('a job that runs longer than its executionTimeout is ended, and the engine stops', async () => {
  const bench = await running(
    { prompt: 'Hi' },
    { payload: { input: { prompt: 'Hi' }, policy: { executionTimeout: 6000 } } },
  );
  await bench.clock.advance(5999);
  expect(bench.errors).toEqual([]);
  await bench.clock.advance(1);
  expect(bench.engine.last.isAborted).toBe(true);
  expect(bench.errors).toMatchObject([{ code: 'deadline', retryable: false }]);
  expect(bench.errors[0]!.error).toBe('the job ran longer than its executionTimeout of 6000 ms');
});

test('a queue that names no type has its jobs known by their form', async () => {
  const bench = await new WorkerBench().readyWithBase();
  await bench.push({ job_type: undefined, payload: { id: 'x', input: { prompt: 'Hi' } } });
  expect(bench.engine.last.call.path).toBe('/v1/completions');
});

test.each([
  [{ input: 'Hi' }, 'input: expected an object'],
  [
    { input: {}, policy: { executionTimeout: 1 } },
    /^policy.executionTimeout: expected milliseconds from 5000/,
  ],
])('the payload %j is refused by name', async (payload, problem) => {
  const bench = await running({}, { payload });
  expect(bench.errors[0]?.error).toMatch(problem);
  expect(bench.engine.exchanges).toEqual([]);
});
