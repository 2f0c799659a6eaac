import { expect, test } from 'vitest';
import type { Job } from '../../../src/protocol/index.ts';
import {
  cannotEndWithin,
  mustMoveInDrain,
  mustReleaseInDrain,
  TokenRate,
} from '../../../src/worker/jobs/forecast.ts';
import { generatedTokens, maxTokensOf } from '../../../src/worker/run/usage.ts';
import { settled } from '../../support/virtual-clock.ts';
import { STREAM_JOB, WorkerBench } from '../../support/worker-fakes.ts';

test.each([
  ['would just fit', 100, 0, 10, 10_000, false],
  ['would take a moment longer', 101, 0, 10, 10_000, true],
  ['has most of it behind it', 1000, 95_000, 10, 5000, false],
  ['has gone on for longer than it should need', 100, 60_000, 10, 1, false],
  ['has no known limit', null, 0, 10, 1, false],
  ['runs at a rate nobody knows', 1_000_000, 0, null, 1, false],
])('a job that %s', (_case, maxTokens, elapsedMs, rate, withinMs, verdict) => {
  expect(cannotEndWithin({ maxTokens, elapsedMs }, rate, withinMs)).toBe(verdict);
});

test.each([
  ['would just end', { made: 11, left: 20 }, 1000, 2000, false],
  ['would end a moment later', { made: 11, left: 21 }, 1000, 2000, true],
  ['has no known end', { made: 11, left: null }, 1000, 1, false],
  ['has no pace yet', { made: 1, left: 1000 }, 0, 1, false],
])('an answer that %s within the grace of a drain', (_case, tokens, streamedMs, graceMs, verdict) => {
  expect(mustMoveInDrain(tokens, streamedMs, graceMs)).toBe(verdict);
});

test('what somebody reads already is never released in a drain', () => {
  const job = { maxTokens: 1000, elapsedMs: 0 };
  expect(mustReleaseInDrain({ ...job, hasReader: false }, 10, 5000)).toBe(true);
  expect(mustReleaseInDrain({ ...job, hasReader: true }, 10, 5000)).toBe(false);
});

test('the rate is the fastest of the recent jobs', () => {
  const rate = new TokenRate();
  expect(rate.tokensPerSecond(0)).toBeNull();
  rate.finished(100, 10_000, 1000);
  rate.finished(100, 2000, 2000);
  rate.finished(100, 5000, 3000);
  expect(rate.tokensPerSecond(3000)).toBe(50);
  // Its sample is too old by now; the third is not.
  expect(rate.tokensPerSecond(303_000)).toBe(20);
  expect(rate.tokensPerSecond(303_001)).toBeNull();
});

test('the rate looks back sixteen jobs, and not at answers of a few words', () => {
  const rate = new TokenRate();
  rate.finished(7, 1, 0);
  expect(rate.tokensPerSecond(0)).toBeNull();
  rate.finished(1000, 1000, 0);
  for (let job = 0; job < 16; job++) rate.finished(10, 1000, 0);
  expect(rate.tokensPerSecond(0)).toBe(10);
});

const jobWith = (payload: unknown) => ({ payload }) as Job;
const engineRequest = (body: unknown) => jobWith({ path: '/v1/x', body: JSON.stringify(body) });

test.each([
  ['a chat job that says so', jobWith({ messages: [], max_tokens: 7 }), 7],
  [
    'a chat job that says it in the newer way',
    jobWith({ messages: [], max_completion_tokens: 8, max_tokens: 512 }),
    8,
  ],
  ['a chat job that says nothing', jobWith({ messages: [] }), 512],
  ['an engine request', engineRequest({ max_tokens: 9 }), 9],
  ['a response', engineRequest({ max_output_tokens: 11 }), 11],
  ['an engine request without a limit', engineRequest({ input: 'x' }), null],
  ['an engine request without a body', jobWith({ path: '/v1/models' }), null],
  ['a body that is no JSON', jobWith({ path: '/v1/x', body: '{' }), null],
  ['a payload that is elsewhere', jobWith(null), null],
  ['an answer of token ids', engineRequest({ sampling_params: { max_tokens: 30 } }), 30],
  ['nonsense', engineRequest({ max_tokens: 'many' }), null],
])('the most tokens of %s', (_case, job, tokens) => {
  expect(maxTokensOf(job)).toBe(tokens);
});

test('generated tokens are counted for each choice', () => {
  expect(generatedTokens({ usage: { completion_tokens: 30 }, choices: [{}, {}, {}] })).toBe(10);
  expect(generatedTokens({ usage: { completion_tokens: 30 } })).toBe(30);
  expect(generatedTokens({ usage: { prompt_tokens: 30 } })).toBeNull();
  expect(generatedTokens('text')).toBeNull();
});

/** A worker that has seen a job of 100 tokens take ten seconds. */
async function experienced(): Promise<WorkerBench> {
  const bench = await new WorkerBench({ capacity: 4 }).ready();
  await bench.push({ job_id: 'past' });
  await bench.clock.advance(10_000);
  bench.engine.last.json(200, {
    choices: [{ index: 0, message: {}, finish_reason: 'length' }],
    usage: { completion_tokens: 100 },
  });
  await settled();
  bench.queue.push({ type: 'ack', job_id: 'past', fence_token: 1, outcome: 'accepted' });
  return bench;
}
const chat = (maxTokens: number) => ({
  payload: { messages: [{ role: 'user', content: 'x' }], max_tokens: maxTokens },
});
const streamed = (maxTokens: number) => ({
  ...STREAM_JOB,
  payload: { path: '/v1/chat/completions', body: JSON.stringify({ stream: true, max_tokens: maxTokens }) },
});

test('a drain releases at once what cannot end inside the grace, and lets the rest run', async () => {
  const bench = await experienced();
  await bench.push({ job_id: 'long', fence_token: 2, ...chat(51) });
  await bench.push({ job_id: 'short', fence_token: 3, ...chat(50) });
  bench.worker.drain(5);
  expect(bench.queue.framesOf('job_release')).toMatchObject([
    { job_id: 'long', fence_token: 2, reason: 'draining' },
  ]);
  expect(bench.engine.exchanges.map(({ isAborted }) => isAborted)).toEqual([false, true, false]);
});

test('a drain lets a stream run that its caller reads already, and releases one nobody has read of', async () => {
  const bench = await experienced();
  await bench.push({ job_id: 'read', fence_token: 2, ...streamed(1000) });
  bench.engine.last.head(200, 'text/event-stream').write('data: 1\n\n');
  await bench.push({ job_id: 'unread', fence_token: 3, ...streamed(1000), stream_id: 8 });
  await bench.clock.advance(0);
  bench.worker.drain(5);
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'unread' }]);
  await bench.clock.advance(5000);
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'unread' }, { job_id: 'read' }]);
});

test('without experience a drain judges nothing', async () => {
  const bench = await new WorkerBench({ capacity: 4 }).ready();
  await bench.push(chat(1_000_000));
  bench.worker.drain(5);
  expect(bench.queue.framesOf('job_release')).toEqual([]);
});

test('a job that cannot meet its deadline beside others is released before it starts', async () => {
  const bench = await experienced();
  await bench.push({ job_id: 'running', fence_token: 2, ...chat(100) });
  await bench.push({ job_id: 'late', fence_token: 2, deadline_ms: 9999, ...chat(100) });
  await bench.push({ job_id: 'fits', fence_token: 3, deadline_ms: 10_000, ...chat(100) });
  expect(bench.queue.framesOf('job_release')).toEqual([
    { type: 'job_release', job_id: 'late', fence_token: 2, reason: 'deadline' },
  ]);
  expect(bench.engine.exchanges).toHaveLength(3);
  await bench.push({ job_id: 'waited', fence_token: 4, deadline_ms: 10, ...streamed(100) });
  await bench.clock.advance(0);
  expect(bench.relay.records.at(-1)).toMatchObject({
    type: 'broken',
    reason: { code: 'deadline', retryable: true },
  });
});

test('a job with a deadline is taken while nobody knows how fast the engine is', async () => {
  const bench = await new WorkerBench().ready();
  await bench.push({ deadline_ms: 10, ...chat(1_000_000) });
  expect(bench.engine.exchanges).toHaveLength(1);
});

test('the answer of a caller who waits teaches the rate too', async () => {
  const bench = await new WorkerBench({ capacity: 3 }).ready();
  await bench.push(streamed(100));
  await bench.clock.advance(10_000);
  bench.engine.last.json(200, {
    choices: [{ finish_reason: 'length' }],
    usage: { completion_tokens: 100 },
  });
  await bench.clock.advance(0);
  await bench.push({ job_id: 'running', fence_token: 2, ...chat(100) });
  await bench.push({ job_id: 'late', fence_token: 3, deadline_ms: 9000, ...chat(100) });
  expect(bench.queue.framesOf('job_release')).toMatchObject([{ job_id: 'late', reason: 'deadline' }]);
});

test('a worker that runs nothing takes the job all the same, and learns what it can do now', async () => {
  const bench = await experienced();
  await bench.push({ job_id: 'tried', fence_token: 2, deadline_ms: 9000, ...chat(100) });
  expect(bench.queue.framesOf('job_release')).toEqual([]);
  await bench.clock.advance(1000);
  bench.engine.last.json(200, {
    choices: [{ index: 0, message: {}, finish_reason: 'length' }],
    usage: { completion_tokens: 100 },
  });
  await settled();
  expect(bench.results).toMatchObject([{ job_id: 'past' }, { job_id: 'tried' }]);
  await bench.push({ job_id: 'running', fence_token: 3, ...chat(100) });
  await bench.push({ job_id: 'fits', fence_token: 4, deadline_ms: 1000, ...chat(100) });
  expect(bench.queue.framesOf('job_release')).toEqual([]);
});
