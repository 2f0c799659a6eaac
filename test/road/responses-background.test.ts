import OpenAI from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { childrenOf, commandLine, signal } from '../soak/proc.ts';
import { until } from '../support/poll.ts';
import {
  engineRunning,
  killQueue,
  type QueueProcess,
  readyWorker,
  setFirstToken,
  setPace,
  startQueue,
  tearDown,
  untilReady,
  type WorkerProcess,
} from '../support/road.ts';

/** Responses in the background, as OpenAI's own client asks for them, while processes are killed. */
let queue: QueueProcess;
let worker: WorkerProcess;
let workers = 0;

const TOKENS = 60;
const SLOTS = { engineArgs: '--inter-token-latency-ms 25', env: { CASOLA_MAX_JOBS: '20' } };

async function startAnotherWorker(): Promise<void> {
  workers += 1;
  worker = await readyWorker(queue.url, `w${workers}`, SLOTS);
}

beforeAll(async () => {
  queue = await startQueue();
  await startAnotherWorker();
});
afterAll(tearDown);

const client = () =>
  new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60_000 });

/** `ignore_eos` is a field of the engine. */
const ASKED = { model: 'tiny', background: true, max_output_tokens: TOKENS, ignore_eos: true } as const;

/** So long that it is at work until the test ends it. */
const LONG = { max_output_tokens: 4000 };

/** An answer as long as was asked for. */
const WHOLE = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };

type Numbered = ResponseStreamEvent & { sequence_number: number };

/** Makes a response that streams, and reads its first events only. */
async function begin(input: string, more: { max_output_tokens?: number } = {}): Promise<string> {
  const stream = await client().responses.create({ ...ASKED, ...more, input, stream: true });
  for await (const event of stream) if (event.type === 'response.created') return event.response.id;
  throw new Error('the stream has no beginning');
}

/** Reads a response from behind an event to its end, and again from there whenever the connection breaks. */
async function read(id: string, after = -1): Promise<Numbered[]> {
  const events: Numbered[] = [];
  await until(
    async () => {
      const last = events.at(-1)?.sequence_number ?? after;
      const place = last < 0 ? {} : { starting_after: last };
      const stream = await client().responses.retrieve(id, { stream: true, ...place });
      for await (const event of stream) events.push(event as Numbered);
      const { status } = await client().responses.retrieve(id);
      return status !== 'queued' && status !== 'in_progress';
    },
    `the end of ${id}`,
    { timeoutMs: 120_000, everyMs: 200 },
  );
  return events;
}

/** Waits until somebody who reads has seen so many events. */
async function seen(id: string, count: number): Promise<void> {
  const stream = await client().responses.retrieve(id, { stream: true });
  for await (const event of stream) if ((event as Numbered).sequence_number + 1 >= count) return;
}

const finalOf = (id: string) =>
  until(
    async () => {
      const response = await client().responses.retrieve(id);
      return response.status === 'queued' || response.status === 'in_progress' ? null : response;
    },
    `${id} is final`,
    { timeoutMs: 120_000 },
  );

function expectNumbered(events: Numbered[], from = 0): void {
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => from + at));
}

function textIn(events: Numbered[]): string {
  return events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
}

async function expectWhole(id: string, events: Numbered[]): Promise<void> {
  expectNumbered(events);
  const response = await client().responses.retrieve(id);
  expect(response).toMatchObject(WHOLE);
  expect(textIn(events)).toBe(response.output_text);
  expect(response.usage?.output_tokens).toBe(TOKENS);
  const last = events.at(-1)!;
  expect(last.type).toBe('response.incomplete');
  expect(last).toMatchObject({ response: { id, output: response.output } });
}

/**
 * Kills the queue and starts it again. Its worker may come as long after that as the start took, since its pauses
 * between two dials double. So no worker that is killed afterwards is lost for a minute.
 */
async function restartQueue(): Promise<void> {
  await killQueue(queue);
  queue = await startQueue({
    port: queue.port,
    stateDir: queue.stateDir,
    env: { QUEUE_RECONNECT_GRACE_SECONDS: '60' },
  });
}

/** Kills a worker's own process, below its supervisor. */
function killWorker(): void {
  const { pid } = worker.process;
  signal(childrenOf(pid).find((child) => commandLine(child).includes('programs/worker.js'))!, 'SIGKILL');
}

describe('a response in the background', () => {
  it('is polled from queued to its end', async () => {
    await setPace(worker.engineUrl, 500);
    const made = await client().responses.create({ ...ASKED, input: 'Poll me.' });
    expect(made).toMatchObject({ status: 'queued', background: true, output: [] });
    await until(async () => (await client().responses.retrieve(made.id)).status === 'in_progress', 'it runs');
    await setPace(worker.engineUrl, 25);
    const response = await finalOf(made.id);
    expect(response).toMatchObject({ ...WHOLE, id: made.id, background: true });
    expect(response.usage?.output_tokens).toBe(TOKENS);
  });

  it('is read by the helper of the client, which takes it up again at an event', async () => {
    const stream = client().responses.stream({ ...ASKED, input: 'Take me up again.' });
    let id = '';
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id;
      if (event.sequence_number === 10) break;
    }
    const resumed = client().responses.stream({ response_id: id, starting_after: 10 });
    const events: Numbered[] = [];
    for await (const event of resumed) events.push(event as Numbered);
    expectNumbered(events, 11);
    const final = await resumed.finalResponse();
    expect(final.output_text).toBe((await finalOf(id)).output_text);
    expect(textIn(await read(id))).toBe(final.output_text);
  });

  it('has the same events for many readers, each joined elsewhere', async () => {
    const id = await begin('Many read me.');
    const places = [-1, 0, 2, 7, 20, 40, 500];
    const [all, ...others] = await Promise.all(places.map((after) => read(id, after)));
    await expectWhole(id, all!);
    for (const [at, events] of others.entries()) expect(events).toEqual(all!.slice(places[at + 1]! + 1));
  });

  it('is cancelled, and then all its readers have ended', async () => {
    const id = await begin('Cancel me.', LONG);
    const readers = [-1, 3, 500].map((after) => read(id, after));
    await seen(id, 10);
    const cancelled = await client().responses.cancel(id);
    expect(cancelled).toMatchObject({ id, status: 'cancelled' });
    for (const events of await Promise.all(readers))
      expect(events.map(({ type }) => type)).not.toContain('response.incomplete');
    const { output_text: text, ...again } = await client().responses.retrieve(id);
    expect(again).toMatchObject({ status: 'cancelled', output: cancelled.output });
    expect(text).not.toBe('');
    // Its usage may have come later than the first cancellation waits for it.
    const { usage: _, ...rest } = cancelled;
    expect(await client().responses.cancel(id)).toMatchObject(rest);
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine has stopped');
  });

  it('refuses what cannot be', async () => {
    const { id } = await client().responses.create({ ...ASKED, input: 'x', background: false });
    await expect(client().responses.cancel(id)).rejects.toThrow(/Cannot cancel a synchronous response/);
    await expect(client().responses.retrieve(id, { stream: true })).rejects.toMatchObject({ status: 400 });
    const refused = client().responses.create({ ...ASKED, input: 'x', store: false });
    await expect(refused).rejects.toMatchObject({ status: 400, param: 'background' });
    const unknown = client().responses.create({ ...ASKED, model: 'no-such-model', input: 'x' });
    await expect(unknown).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
    await expect(unknown).rejects.toThrow(/"no-such-model" is not served here. GET \/v1\/models lists/);
    await expect(client().responses.cancel('resp_none')).rejects.toMatchObject({ status: 404 });
    const running = await begin('Do not delete me.', LONG);
    await expect(client().responses.delete(running)).rejects.toMatchObject({ status: 409 });
    await client().responses.cancel(running);
    await client().responses.delete(running);
    await expect(client().responses.retrieve(running)).rejects.toMatchObject({ status: 404 });
  });
});

describe('a response in the background whose process is killed', () => {
  it('is made by another worker when its own dies before the first word', async () => {
    killWorker();
    await worker.process.exited;
    await startAnotherWorker();
    await setFirstToken(worker.engineUrl, 600_000);
    const id = await begin('Made by another worker.');
    const reader = read(id);
    await until(async () => (await engineRunning(worker.engineUrl)) === 1, 'its engine has it');
    expect(await client().responses.retrieve(id)).toMatchObject({ status: 'in_progress' });
    killWorker();
    await worker.process.exited;
    await startAnotherWorker();
    await expectWhole(id, await reader);
  });

  it('fails when its worker dies behind the first word, and keeps what was said', async () => {
    const [streamed, polled] = await Promise.all([
      begin('My worker dies.', LONG),
      client().responses.create({ ...ASKED, input: 'Mine too.' }),
    ]);
    const reader = read(streamed);
    await seen(streamed, 20);
    killWorker();
    await startAnotherWorker();
    const events = await reader;
    expectNumbered(events);
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error' } },
    });
    const response = await client().responses.retrieve(streamed);
    expect(response.output_text).toBe(textIn(events));
    expect(response.output_text.length).toBeGreaterThan(0);
    // Nobody has read any of this one.
    expect(await finalOf(polled.id)).toMatchObject(WHOLE);
  });

  it('goes on over a kill of the queue, which is the gateway too', async () => {
    const [streamed, polled] = await Promise.all([
      begin('Kill the queue.'),
      client().responses.create({ ...ASKED, input: 'Kill the queue too.' }),
    ]);
    const readers = [-1, 5, 20].map((after) => read(streamed, after));
    await seen(streamed, 15);
    await restartQueue();
    const [all, ...others] = await Promise.all(readers);
    await expectWhole(streamed, all!);
    for (const [at, events] of others.entries()) expect(events).toEqual(all!.slice([6, 21][at]));
    expect(await finalOf(polled.id)).toMatchObject(WHOLE);
  });

  it('is read on while it runs over a kill of the queue, however much of it the queue had', async () => {
    await setPace(worker.engineUrl, 8);
    // Long enough to be at work still when a busy machine has read a part of it.
    const id = await begin('Read me on.', { max_output_tokens: 20_000 });
    await seen(id, 400);
    // An answer with more than 1 MiB of events before the queue reads on has the rest only with its end.
    await setPace(worker.engineUrl, 2000);
    await restartQueue();
    await untilReady(queue.url, worker.id);
    await setPace(worker.engineUrl, 8);
    const stream = await client().responses.retrieve(id, { stream: true });
    const events: Numbered[] = [];
    for await (const event of stream) if (events.push(event as Numbered) >= 800) break;
    expectNumbered(events);
    expect((await client().responses.retrieve(id)).status).toBe('in_progress');
    await client().responses.cancel(id);
    expect((await client().responses.retrieve(id)).output_text.startsWith(textIn(events))).toBe(true);
  });
});
