import { request } from 'node:http';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { withoutComments } from '../support/comments.ts';
import { bytes, EVENT_STREAM, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';

/** What a caller is told of an error when its response has begun, in a real queue; the worker is played. */
const road = startTestQueue({ RECONNECT_GRACE_SECONDS: '2' });

async function worker(queue: string): Promise<RawWorker> {
  return await (await new RawWorker(road.url).connect(queue)).register('w');
}

function ask(queue: string, path: string, streams = true): Promise<Response> {
  return fetch(road.url + path, {
    method: 'POST',
    headers: { 'x-queue-id': queue, 'x-request-id': 'my-request' },
    body: JSON.stringify({ model: 'tiny', stream: streams }),
  });
}

/** An attempt that breaks when its caller's response has begun. */
async function breakLate(queue: string, answered: Promise<Response>, played: RawWorker): Promise<Response> {
  const stream = (await played.job()).stream_id as number;
  const response = await answered;
  expect([response.status, response.headers.get('x-request-id')]).toEqual([200, 'my-request']);
  const reason = { message: `no ${queue}`, code: 'engine_error', retryable: false, http_status: 507 };
  played.answer({ type: 'broken', stream, reason });
  return response;
}

describe('an error before the first byte of a stream that was begun', () => {
  it.each([
    [
      '/v1/chat/completions',
      /^data: \{"error":\{.*"code":"engine_error","status":507\}\}\n\ndata: \[DONE\]\n\n$/,
    ],
    ['/v1/completions', /^data: \{"error":\{.*"code":"engine_error","status":507\}\}\n\ndata: \[DONE\]\n\n$/],
    ['/v1/responses', /^event: error\ndata: \{"type":"error",.*"code":"engine_error".*\}\n\n$/],
    [
      '/v1/messages',
      /^event: error\ndata: \{"type":"error","error":\{"type":"api_error","message":"no q.*"\},"request_id":"my-request"\}\n\n$/,
    ],
  ])('has the form that clients of %s raise', async (path, expected) => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const response = await breakLate(queue, ask(queue, path), played);
    expect(withoutComments(await response.text())).toMatch(expected);
  });
});

describe('an error in the middle of a stream', () => {
  it.each([
    [
      'anthropic',
      /^event: x\ndata: 1\n\nevent: error\ndata: \{"type":"error","error":\{"type":"api_error",.*\n\n$/,
    ],
    ['responses', /^event: x\ndata: 1\n\nevent: error\ndata: \{"type":"error",.*"code":"worker_died".*\n\n$/],
    ['of-tomorrow', /^event: x\ndata: 1\n\ndata: \{"error":.*"status":502\}\}\n\ndata: \[DONE\]\n\n$/],
  ])('has the form of the API that its worker named: %s', async (dialect, expected) => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const answered = ask(queue, '/v1/chat/completions');
    const stream = (await played.job()).stream_id as number;
    played.answer(
      { type: 'head', stream, head: { ...EVENT_STREAM, dialect: dialect as 'anthropic' } },
      { type: 'bytes', stream, offset: 0, data: bytes('event: x\ndata: 1\n\n') },
    );
    const response = await answered;
    played.vanish();
    expect(withoutComments(await response.text())).toMatch(expected);
  });
});

describe('an error of an answer in one piece that was begun', () => {
  it('is its body, which breaks off before its end', async () => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const heard = Promise.withResolvers<{ text: string; isWhole: boolean }>();
    const headers = { 'x-queue-id': queue };
    const asked = request(`${road.url}/v1/chat/completions`, { method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => {
        if (text === '') void breakOff();
        text += piece;
      });
      response.on('error', () => {});
      response.on('close', () => heard.resolve({ text, isWhole: response.complete }));
    });
    const breakOff = async () => {
      const stream = (await played.job()).stream_id as number;
      const reason = { message: 'out of memory', code: 'engine_error', retryable: false };
      played.answer({ type: 'broken', stream, reason });
    };
    asked.end('{"model":"tiny"}');
    const { text, isWhole } = await heard.promise;
    expect(text).toMatch(/^\n/);
    expect(JSON.parse(text)).toMatchObject({ error: { message: 'out of memory', code: 'engine_error' } });
    expect(isWhole).toBe(false);
  });

  it('breaks off too where its first bytes have come', async () => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const answered = ask(queue, '/v1/chat/completions', false);
    const stream = (await played.job()).stream_id as number;
    const head = { status: 200, headers: { 'content-type': 'application/json' } };
    played.answer({ type: 'head', stream, head }, { type: 'bytes', stream, offset: 0, data: bytes('{"a":') });
    const response = await answered;
    played.vanish();
    await expect(response.text()).rejects.toThrow();
  });
});

it('that nobody can mend is no warning of the log', () => {
  expect(road.warned).toEqual([]);
});

describe('the official OpenAI client', () => {
  it.each(['chat', 'responses'] as const)('raises a late error of a stream: %s', async (api) => {
    const queue = road.newQueue();
    const played = await worker(queue);
    const client = new OpenAI({
      baseURL: `${road.url}/v1`,
      apiKey: 'none',
      maxRetries: 0,
      defaultHeaders: { 'x-queue-id': queue },
    });
    const stream: Promise<AsyncIterable<unknown>> =
      api === 'chat'
        ? client.chat.completions.create({ model: 'tiny', messages: [], stream: true })
        : client.responses.create({ model: 'tiny', input: 'x', stream: true });
    const read = async () => {
      for await (const _ of await stream);
    };
    const raised = read();
    const id = (await played.job()).stream_id as number;
    await stream;
    const reason = { message: 'out of memory', code: 'engine_error', retryable: false, http_status: 507 };
    played.answer({ type: 'broken', stream: id, reason });
    await expect(raised).rejects.toMatchObject({
      code: 'engine_error',
      type: 'api_error',
      message: 'out of memory',
      error: { status: 507 },
    });
  });
});
