import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { roadContract } from '../engine/road-contract.ts';
import { until } from '../support/poll.ts';
import { job, settled, startQueue, submit, tearDown, workers } from '../support/road.ts';
import { type Llama, SLOTS, startLlama, untilBusy, untilIdle, workerFor } from './llama.ts';

/** The road over llama.cpp's server: another engine than vLLM, with health, errors and gauges of its own. */
let url: string;
let llama: Llama;
let client: OpenAI;
beforeAll(async () => {
  url = (await startQueue()).url;
  llama = await startLlama();
  await workerFor(url, llama, 'w');
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(tearDown);

const messages = [{ role: 'user' as const, content: 'Say hello.' }];
/** The same tokens each time, whatever it has in its cache. */
const FIXED = { model: 'tiny', messages, max_tokens: 40, temperature: 0, seed: 1 };
const LONG = { model: 'tiny', messages, max_tokens: 30_000 };

function post(path: string, body: unknown, base = url): Promise<Response> {
  return fetch(`${base}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** What an answer says beside its own id and times. */
function lasting(body: unknown): unknown {
  return JSON.parse(
    JSON.stringify(body, (key, value) =>
      ['id', 'created', 'created_at', 'timings', 'cached_tokens', 'item_id'].includes(key)
        ? undefined
        : value,
    ),
  );
}

/** The data of a stream's events. */
function eventsIn(text: string): unknown[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => lasting(JSON.parse(line.slice(6))));
}

describe('llama.cpp by its description', () => {
  roadContract('llama-cpp', async () => {
    const own = await startLlama(['--metrics']);
    return { url: own.url, stop: () => own.process.stop() };
  });
});

describe('llama.cpp behind the road', () => {
  it('is found healthy by its own route, and its model is listed', async () => {
    const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(models.data.map(({ id }) => id)).toContain('tiny');
  });

  it('answers as it does when it is asked directly', async () => {
    const body = FIXED;
    const direct = await post('/v1/chat/completions', body, llama.url);
    const through = await post('/v1/chat/completions', body);
    expect([through.status, lasting(await through.json())]).toEqual([200, lasting(await direct.json())]);
  });

  it.each([
    ['/v1/chat/completions', { ...FIXED, stream: true }],
    ['/v1/chat/completions', { ...FIXED, stream: true, stream_options: { include_usage: true } }],
    ['/v1/completions', { model: 'tiny', prompt: 'ba be', max_tokens: 20, temperature: 0, stream: true }],
    ['/v1/messages', { ...FIXED, stream: true }],
  ])('streams %s event by event as it does itself (%#)', async (path, body) => {
    const direct = eventsIn(await (await post(path, body, llama.url)).text());
    const response = await post(path, body);
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const text = await response.text();
    const withoutIds = (events: unknown[]) =>
      JSON.stringify(events).replaceAll(/(msg|chatcmpl)[-_]\w+/g, '$1');
    expect(withoutIds(eventsIn(text))).toBe(withoutIds(direct));
    if (!path.includes('messages')) expect(text.trimEnd()).toMatch(/data: \[DONE\]$/);
  });

  it('counts what every stream has used, though its callers did not ask', async () => {
    // An answer is counted when its worker has settled it, which may be after its caller has read it.
    await until(async () => (await running()) === 0, 'the answers before are settled');
    const before = await completionTokens();
    await (await post('/v1/chat/completions', { ...FIXED, stream: true })).text();
    await (await post('/v1/messages', { ...FIXED, stream: true })).text();
    await until(async () => (await completionTokens()) === before + 80, 'both are counted');
  });

  it('runs stored jobs, in the form of the base and as a stream', async () => {
    const chat = await submit(url, {
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload: { messages, max_completion_tokens: 6 },
    });
    expect(await settled(url, chat.id)).toMatchObject({
      state: 'succeeded',
      result: { completion: { usage: { completion_tokens: 6 }, choices: [{ finish_reason: 'length' }] } },
    });
    const stream = await submit(url, {
      job_type: 'engine_request',
      config_id: 'cfg',
      stream: true,
      payload: { path: '/v1/chat/completions', body: JSON.stringify({ ...FIXED, stream: true }) },
    });
    expect(await settled(url, stream.id)).toMatchObject({ state: 'succeeded' });
    const replay = await (await fetch(`${url}/api/jobs/${stream.id}/stream`)).text();
    expect(replay).toMatch(/data: \[DONE\]\n\n$/);
  });

  it('answers more callers at a time than it has slots', async () => {
    const answers = await Promise.all(
      Array.from({ length: 4 * SLOTS }, () => client.chat.completions.create({ ...FIXED, max_tokens: 50 })),
    );
    expect(answers.map(({ usage }) => usage?.completion_tokens)).toEqual(Array(4 * SLOTS).fill(50));
  });
});

/** Its own events of responses have no sequence numbers, and it calls one that was cut completed. */
describe('a response of llama.cpp', () => {
  const asked = { model: 'tiny', input: 'Say hello.', temperature: 0, max_output_tokens: 12 };

  it('says what its chat says', async () => {
    const chat = await client.chat.completions.create({ ...FIXED, max_tokens: 12 });
    const response = await client.responses.create({ ...asked, seed: 1 } as typeof asked);
    expect(response).toMatchObject({
      output_text: chat.choices[0]!.message.content,
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      usage: { input_tokens: chat.usage!.prompt_tokens, output_tokens: 12 },
    });
  });

  it('is streamed as OpenAI’s client reads it, and counted', async () => {
    await until(async () => (await running()) === 0, 'the answers before are settled');
    const before = await completionTokens();
    const events: { type: string; sequence_number: number }[] = [];
    const stream = client.responses.stream(asked);
    for await (const event of stream) events.push(event as (typeof events)[number]);
    const final = await stream.finalResponse();
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
    expect(events.at(-1)!.type).toBe('response.incomplete');
    const deltas = events.filter(({ type }) => type === 'response.output_text.delta') as unknown as {
      delta: string;
    }[];
    expect(deltas.map(({ delta }) => delta).join('')).toBe(final.output_text);
    await until(async () => (await completionTokens()) === before + 12, 'it is counted');
  });

  it('goes on from calls of functions and from reasoning', async () => {
    const tools = [{ type: 'function' as const, name: 'f', parameters: { type: 'object' }, strict: false }];
    const response = await client.responses.create({
      ...asked,
      instructions: 'Be brief.',
      tools,
      input: [
        { role: 'user', content: 'call f' },
        { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'ba' }] },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: 'be' },
      ],
    });
    expect(response.output_text).not.toBe('');
  });

  it('has the form that its request names', async () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'boolean' } },
      required: ['a'],
      additionalProperties: false,
    };
    const { output_text: text } = await client.responses.create({
      ...asked,
      max_output_tokens: 200,
      text: { format: { type: 'json_schema', name: 'x', schema, strict: true } },
    });
    expect(JSON.parse(text)).toEqual({ a: expect.any(Boolean) });
  });

  it('is refused if it asks for what no chat has, with the reason', async () => {
    const tools = [{ type: 'web_search' as const }];
    const refused = await client.responses.create({ ...asked, tools }).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      status: 400,
      param: 'tools[0]',
      message: expect.stringMatching(/"web_search".*chat/),
    });
  });

  it('stops when its caller hangs up', async () => {
    const stream = await client.responses.create({ ...asked, max_output_tokens: 30_000, stream: true });
    for await (const event of stream) if (event.type === 'response.output_text.delta') break;
    stream.controller.abort();
    await untilIdle(llama);
  });
});

describe('what llama.cpp refuses', () => {
  it.each([
    [{ model: 'tiny', messages: 'x' }, 400, /array/],
    [{ model: 'tiny' }, 400, /messages/],
    [
      { ...FIXED, stream: true, messages: [{ role: 'user', content: 'ba '.repeat(33_000) }] },
      400,
      /context size/,
    ],
  ])('reaches the caller with its status and words (%#)', async (body, status, words) => {
    const direct = await post('/v1/chat/completions', body, llama.url);
    const through = await post('/v1/chat/completions', body);
    const text = await through.text();
    expect([through.status, text]).toEqual([status, await direct.text()]);
    expect(text).toMatch(words);
  });

  it('because it is not started for it is a 501, and final for a stored job', async () => {
    const body = { model: 'tiny', input: 'ba' };
    const response = await post('/v1/embeddings', body);
    expect([response.status, await response.text()]).toEqual([501, expect.stringContaining('--embeddings')]);
    const { id } = await submit(url, {
      job_type: 'engine_request',
      config_id: 'cfg',
      payload: { path: '/v1/embeddings', body: JSON.stringify(body) },
    });
    expect(await settled(url, id)).toMatchObject({
      state: 'failed',
      attempts: 1,
      error: { http_status: 501 },
    });
  });
});

describe('what llama.cpp is told no more', () => {
  it('is a stream whose caller hung up: it stops', async () => {
    const stream = await client.chat.completions.create({ ...LONG, stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    stream.controller.abort();
    await untilIdle(llama);
  });

  it('is an answer in one piece whose caller hung up', async () => {
    const abort = new AbortController();
    const asked = client.chat.completions.create(LONG, { signal: abort.signal }).catch(() => 'aborted');
    await untilBusy(llama);
    abort.abort();
    expect(await asked).toBe('aborted');
    await untilIdle(llama);
  });

  it('is a stored job that was cancelled', async () => {
    const { id } = await submit(url, {
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload: { messages, max_tokens: 30_000 },
    });
    await untilBusy(llama);
    await fetch(`${url}/api/jobs/${id}`, { method: 'DELETE' });
    await untilIdle(llama);
    expect((await job(url, id)).state).toBe('cancelled');
  });
});

it('gauges of vLLM that it has not are told by nobody', async () => {
  const worker = (await workers(url)).find(({ worker_id }) => worker_id === 'w');
  expect(worker).toMatchObject({ state: 'ready', capacity: 8 });
  const fleet = (await (await fetch(`${url}/api/fleet`)).json()) as { workers: object[] };
  expect(fleet.workers).toMatchObject([{ engine_running: null, engine_waiting: null, kv_cache_usage: null }]);
});

async function running(): Promise<number> {
  return ((await (await fetch(`${url}/health`)).json()) as { running: number }).running;
}

async function completionTokens(): Promise<number> {
  const usage = (await (await fetch(`${url}/api/usage`)).json()) as { total: { output: number } };
  return usage.total.output;
}
