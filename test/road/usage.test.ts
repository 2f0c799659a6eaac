import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { UsageAmounts } from '../../src/queue/rpc.ts';
import { until } from '../support/poll.ts';
import {
  chatJob,
  engineRunning,
  job,
  killQueue,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** What is counted is held against what the engine itself counted. */
let queue: QueueProcess;
let worker: WorkerProcess;

const CALLERS = 4;
/** A cancellation waits so long for what the worker used, ms (docs/responses.md). */
const WORKER_WAITED_FOR_MS = 2000;
const MAX_TOKENS = 3;
/** The responses that were cancelled, by their addresses. */
const cancelledAt = new Map<string, CountedResponse>();
/** US dollars of the worker's machine. */
const PRICE = 3600;
/** Of a worker that the road starts. */
const SLOTS = 8;
const BODY = { model: 'tiny', messages: [{ role: 'user', content: 'Say hello.' }], max_tokens: MAX_TOKENS };

beforeAll(async () => {
  queue = await startQueue();
  const env = { WORKER_PRICE_PER_HOUR: String(PRICE) };
  worker = await readyWorker(queue.url, 'only', { engineArgs: '--inter-token-latency-ms 2', env });
});
afterAll(tearDown);

const chat = (more: object, init: RequestInit = {}) =>
  fetch(`${queue.url}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ ...BODY, ...more }),
    ...init,
  });

async function counted(): Promise<UsageAmounts & { dollars: number | null }> {
  const response = await fetch(`${queue.url}/api/usage?days=2`);
  return ((await response.json()) as { total: UsageAmounts & { dollars: number } }).total;
}

interface CountedResponse {
  usage: { input_tokens: number; output_tokens: number; total_tokens: number };
}

/** What the engine says of itself: requests that it finished, and tokens. */
async function engineCounted(): Promise<{ finished: number; input: number; output: number }> {
  const text = await (await fetch(`${worker.engineUrl}/metrics`)).text();
  const sum = (pattern: RegExp) =>
    [...text.matchAll(pattern)].reduce((total, [, value]) => total + Number(value), 0);
  return {
    finished: sum(/^vllm:request_success_total\{[^}]*finished_reason="(?:stop|length)"[^}]*\} (\S+)/gm),
    input: sum(/^vllm:prompt_tokens_total\{[^}]*\} (\S+)/gm),
    output: sum(/^vllm:generation_tokens_total\{[^}]*\} (\S+)/gm),
  };
}

/** Reads a response in the background until so many tokens have come to the queue: the engine may be far ahead of it. */
async function untilStored(address: string, tokens: number): Promise<void> {
  const { body } = await fetch(`${address}?stream=true`);
  let text = '';
  for await (const part of body!.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.split('event: response.output_text.delta').length > tokens) return;
  }
  throw new Error(`the stream ended before token ${tokens}`);
}

/** Asks on and on until told to stop; what breaks is asked again. */
async function askOn(isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    try {
      await (await chat({ stream: Math.random() < 0.5 })).text();
    } catch {
      await new Promise((done) => setTimeout(done, 50));
    }
  }
}

describe('usage', () => {
  it('is what the engine counted, of streams whose callers did not ask as well', async () => {
    // The worker's own first request is counted to nobody.
    const before = await engineCounted();
    const answer = await (await chat({ stream: true })).text();
    expect(answer).toContain('data: [DONE]');
    expect(answer).not.toContain('"usage":{');
    const asked = await (await chat({ stream: true, stream_options: { include_usage: true } })).text();
    expect(asked).toContain('"usage":{');
    await (await chat({})).text();
    await settled(queue.url, (await submit(queue.url, chatJob(5))).id);
    const engine = await engineCounted();
    const wanted = {
      requests: 4,
      succeeded: 4,
      input: engine.input - before.input,
      output: engine.output - before.output,
      estimated_requests: 0,
    };
    await until(async () => (await counted()).requests === 4, 'all is counted');
    const total = await counted();
    expect(total).toMatchObject({ ...wanted, unpriced_slot_ms: 0 });
    expect(total.slot_ms).toBeGreaterThan(0);
    expect(total.dollars).toBeCloseTo((total.slot_ms * PRICE) / SLOTS / 3_600_000, 6);
  });

  it('counts what a caller got that hung up, and says that it is an estimate', async () => {
    const before = await counted();
    const hangUp = new AbortController();
    const response = await chat(
      { stream: true, max_tokens: 5000, ignore_eos: true },
      { signal: hangUp.signal },
    );
    const reader = response.body!.getReader();
    for (let pieces = 0; pieces < 5; pieces += 1) await reader.read();
    hangUp.abort();
    await until(async () => (await counted()).cancelled === before.cancelled + 1, 'it is counted');
    const { output, estimated_requests } = await counted();
    expect(estimated_requests).toBe(before.estimated_requests + 1);
    expect(output).toBeGreaterThan(before.output);
    expect(output).toBeLessThanOrEqual((await engineCounted()).output);
  });

  it('counts what had come of a stream that is cancelled by its id', async () => {
    const [before, engineBefore] = [await counted(), await engineCounted()];
    const response = await chat({ stream: true, max_tokens: 5000, ignore_eos: true });
    const generated = async () => (await engineCounted()).output - engineBefore.output;
    await until(async () => (await generated()) > 20, 'the engine generates');
    const id = response.headers.get('x-job-id');
    expect((await fetch(`${queue.url}/api/jobs/${id}`, { method: 'DELETE' })).status).toBe(200);
    await until(async () => (await counted()).output > before.output, 'it is counted');
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine stops');
    const { output, cancelled, wasted } = await counted();
    expect([cancelled, wasted]).toEqual([before.cancelled + 1, before.wasted]);
    expect(output - before.output).toBeLessThanOrEqual(await generated());
  });

  it.each([
    ['before its first token', 0, true],
    ['after its first tokens', 6, true],
    ['in its middle', 40, true],
    ['without a stream', 20, false],
  ])('is that of a response in the background which is cancelled: %s', async (_, tokens, stream) => {
    const [before, engineBefore] = [await counted(), await engineCounted()];
    const generated = async () => (await engineCounted()).output - engineBefore.output;
    const asked = { model: 'tiny', input: 'Say it all.', background: true, ignore_eos: true };
    const made = await fetch(`${queue.url}/v1/responses`, {
      method: 'POST',
      body: JSON.stringify({ ...asked, stream, max_output_tokens: 5000 }),
    });
    const id = made.headers.get('x-job-id');
    await made.body!.cancel();
    const address = `${queue.url}/v1/responses/${id}`;
    if (!stream) await until(async () => (await generated()) >= tokens, 'the engine generates');
    else if (tokens > 0) await untilStored(address, tokens);
    const askedAt = performance.now();
    const cancelled = (await (
      await fetch(`${address}/cancel`, { method: 'POST' })
    ).json()) as CountedResponse;
    const tookMs = performance.now() - askedAt;
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine stops');
    await until(async () => {
      const { worker_id, error } = await job(queue.url, id!);
      return worker_id === null || error?.usage;
    }, 'its worker, if it had one, tells what it used');
    const response = (await (await fetch(address)).json()) as CountedResponse;
    const { usage, ...rest } = response;
    expect(cancelled).toMatchObject(rest);
    if (tookMs < WORKER_WAITED_FOR_MS) expect(cancelled.usage).toEqual(usage);
    cancelledAt.set(address, response);
    const { input_tokens, output_tokens, total_tokens } = usage;
    expect(total_tokens).toBe(input_tokens + output_tokens);
    expect(output_tokens).toBeLessThanOrEqual(await generated());
    if (stream) expect(output_tokens).toBeGreaterThanOrEqual(tokens / 2);
    const { cancelled: count, wasted, input, output } = await counted();
    expect([count, wasted]).toEqual([before.cancelled + 1, before.wasted]);
    expect([input - before.input, output - before.output]).toEqual([input_tokens, output_tokens]);
  });

  it('stays what the engine counted when the queue is killed under load and started again', async () => {
    const [before, engineBefore] = [await counted(), await engineCounted()];
    let isOver = false;
    const callers = Array.from({ length: CALLERS }, () => askOn(() => isOver));
    const done = async (requests: number) =>
      (await engineCounted()).finished - engineBefore.finished >= requests;
    await until(() => done(200), 'the engine is at work');
    await killQueue(queue);
    const atKill = (await engineCounted()).finished;
    queue = await startQueue({ port: queue.port, stateDir: queue.stateDir });
    for (const [address, response] of cancelledAt)
      expect(await (await fetch(address)).json()).toEqual(response);
    await until(() => done(atKill - engineBefore.finished + 100), 'it goes on');
    isOver = true;
    await Promise.all(callers);
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'nothing runs any more');
    // Of what ran at the kill the engine may have finished what nobody waited for any more.
    const engine = await engineCounted();
    const finished = engine.finished - engineBefore.finished;
    const isAllCounted = async () => (await counted()).succeeded - before.succeeded >= finished - CALLERS;
    await until(isAllCounted, 'all is counted');
    const after = await counted();
    expect(after.succeeded - before.succeeded).toBeLessThanOrEqual(finished);
    expect(after.input).toBeLessThanOrEqual(engine.input);
    expect(after.output).toBeLessThanOrEqual(engine.output);
    expect(after.output - before.output).toBeGreaterThanOrEqual((finished - CALLERS) * MAX_TOKENS);
  });
});
