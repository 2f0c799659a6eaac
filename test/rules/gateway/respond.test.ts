import { describe, expect, it } from 'vitest';
import type { Outcome } from '../../../src/asking/attempt-loop.ts';
import { respond } from '../../../src/gateway/inference/respond.ts';
import type { RequestFacts } from '../../../src/request-facts/body-facts.ts';

const PLAIN: RequestFacts = { model: 'tiny', stream: false, includeUsage: false };
const STREAMED: RequestFacts = { ...PLAIN, stream: true };
const NOW_MS = 1_700_000_000_999;

const COMPLETION = {
  id: 'chatcmpl-1',
  model: 'tiny',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'Hi.' }, finish_reason: 'stop' },
    { index: 1, message: { role: 'assistant', content: 'Yo.' }, finish_reason: 'length' },
  ],
  usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
};

const result = (more: Record<string, unknown>): Outcome => ({
  kind: 'result',
  result: { status: 'success', ...more },
  worker_id: 'base-1',
});

const ask = (outcome: Outcome, facts = PLAIN) =>
  respond(outcome, { jobId: 'job-1', facts, errorOf: { dialect: 'openai' } }, NOW_MS);

async function errorOf(response: Response): Promise<{ message: string }> {
  return ((await response.json()) as { error: { message: string } }).error;
}

/** The data of each event. */
async function events(response: Response): Promise<string[]> {
  const text = await response.text();
  expect(text.endsWith('\n\n')).toBe(true);
  return text
    .trimEnd()
    .split('\n\n')
    .map((event) => event.replace(/^data: /, ''));
}

describe('the answer of a worker without an answer socket', () => {
  it('becomes a chat completion with the fields the base protocol leaves out', async () => {
    const response = ask(result({ completion: COMPLETION }));
    expect(response.status).toBe(200);
    expect(response.headers.get('x-job-id')).toBe('job-1');
    expect(await response.json()).toEqual({
      ...COMPLETION,
      object: 'chat.completion',
      created: 1_700_000_000,
    });
  });

  it('becomes a list of embeddings', async () => {
    const embeddings = [
      { index: 0, embedding: [0.5, 0.25] },
      { index: 1, embedding: 'AAAA' },
    ];
    const response = ask(
      result({ task: 'openai/embeddings', embeddings, prompt_tokens: 4, total_tokens: 4 }),
    );
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        object: 'list',
        data: embeddings.map((item) => ({ object: 'embedding', ...item })),
        model: 'tiny',
        usage: { prompt_tokens: 4, total_tokens: 4 },
      },
    ]);
  });

  it.each([
    ['mp3', 'audio/mpeg'],
    ['wav', 'audio/wav'],
    ['new', 'application/octet-stream'],
  ])('becomes sound of the format %s', async (format, type) => {
    const sound = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const response = ask(result({ audio_base64: Buffer.from(sound).toString('base64'), format }));
    expect([response.status, response.headers.get('content-type')]).toEqual([200, type]);
    expect(new Uint8Array(await response.arrayBuffer())).toEqual(sound);
  });

  it('becomes a transcript', async () => {
    const response = ask(result({ task: 'openai/audio-transcription', text: 'hello', duration: 1.5 }));
    expect(await response.json()).toEqual({ text: 'hello', duration: 1.5 });
  });

  it('that cannot be read is an error of the worker', async () => {
    expect(ask(result({ audio_base64: '§' })).status).toBe(502);
  });

  it('becomes one chunk for each choice and the end mark where a stream was asked for', async () => {
    const response = ask(result({ completion: COMPLETION }), STREAMED);
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const data = await events(response);
    expect(data.at(-1)).toBe('[DONE]');
    const chunks = data.slice(0, -1).map((text) => JSON.parse(text));
    expect(chunks).toHaveLength(2);
    expect(chunks[1]).toEqual({
      id: 'chatcmpl-1',
      model: 'tiny',
      object: 'chat.completion.chunk',
      created: 1_700_000_000,
      choices: [{ index: 1, delta: { role: 'assistant', content: 'Yo.' }, finish_reason: 'length' }],
    });
  });

  it('carries usage in a last chunk of its own only where it was asked for', async () => {
    const data = await events(ask(result({ completion: COMPLETION }), { ...STREAMED, includeUsage: true }));
    const chunks = data.slice(0, -1).map((text) => JSON.parse(text));
    expect(chunks.map((chunk) => chunk.usage)).toEqual([null, null, COMPLETION.usage]);
    expect(chunks.at(-1).choices).toEqual([]);
  });

  it('numbers the tool calls of a streamed message', async () => {
    const message = { role: 'assistant', tool_calls: [{ id: 'a' }, { id: 'b' }] };
    const completion = { ...COMPLETION, choices: [{ index: 0, message, finish_reason: 'tool_calls' }] };
    const [chunk] = await events(ask(result({ completion }), STREAMED));
    expect(JSON.parse(chunk as string).choices[0].delta.tool_calls).toEqual([
      { index: 0, id: 'a' },
      { index: 1, id: 'b' },
    ]);
  });

  it('is the answer of the engine where the result holds that', async () => {
    const response = ask(
      result({ response: { status: 418, content_type: 'application/json', body: { is: 'teapot' } } }),
    );
    expect(response.status).toBe(418);
    expect(await response.json()).toEqual({ is: 'teapot' });
  });

  it.each([99, 101, 600, 999, 200.5, Number.NaN])('is a 502 where its status is %d', async (status) => {
    const response = ask(result({ response: { status, body: 'x' } }));
    expect(response.status).toBe(502);
    expect((await errorOf(response)).message).toContain(String(status));
  });

  it('has no body where its status allows none', async () => {
    const response = ask(result({ response: { status: 204, body: '' } }));
    expect([response.status, await response.text()]).toEqual([204, '']);
  });

  it('is a 502 where the result holds no answer', async () => {
    const response = ask(result({ answer: 'of another kind' }));
    expect(response.status).toBe(502);
    expect((await errorOf(response)).message).toContain('base-1');
  });
});

describe('the end of a request without an answer', () => {
  const failed = (failure: Record<string, unknown>, attempts = 1) =>
    ask({
      kind: 'failed',
      attempts,
      failure: { message: 'it broke', code: 'engine_error', retryable: true, ...failure },
    });

  it('keeps the status and the body of the engine', async () => {
    const body = { error: { message: 'too long', type: 'BadRequestError', param: null, code: 400 } };
    const response = failed({ http_status: 400, body });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual(body);
  });

  it.each([
    ['engine_died', 502],
    ['engine_overloaded', 503],
    ['too_large', 413],
    ['unsupported_by_worker', 501],
    ['deadline', 504],
    ['a_code_of_the_future', 502],
  ])('maps %s to %i', async (code, status) => {
    const response = failed({ code });
    expect(response.status).toBe(status);
    expect(await errorOf(response)).toMatchObject({ message: 'it broke', code });
  });

  it('reads the status out of what a base worker says of its engine', async () => {
    const response = failed({ message: 'Error code: 400 - context is\nfull', code: 'worker_error' });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({
      message: 'context is\nfull',
      type: 'invalid_request_error',
    });
  });

  it.each([
    [101, 502],
    [204, 204],
    [302, 302],
  ])('can be told whatever the status of the engine: %d', async (http_status, status) => {
    expect(failed({ http_status, body: {} }).status).toBe(status);
    // Without a body there is nothing of the engine's to keep.
    expect(failed({ http_status }).status).toBe(502);
  });

  it('names the number of attempts', async () => {
    const response = failed({}, 3);
    expect((await errorOf(response)).message).toBe('it broke (3 attempts were made)');
  });

  it('is a 503 with a time to come back when workers only released the job', async () => {
    const response = failed({ code: 'draining' }, 0);
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('5');
  });

  it.each([
    ['unknown_model', 404, 'model_not_found', null],
    ['ambiguous_model', 400, 'model_required', null],
    ['no_worker', 503, 'no_worker', '7'],
    ['no_slot', 503, 'no_slot', '7'],
    ['queue_full', 429, 'queue_full', '7'],
    ['deadline', 503, 'deadline', '7'],
  ] as const)('maps the refusal %s to %i', async (reason, status, code, retryAfter) => {
    const response = ask({
      kind: 'refused',
      reason,
      message: 'models there are: a, b',
      retry_after_seconds: 6.2,
    });
    expect(response.status).toBe(status);
    expect(response.headers.get('retry-after')).toBe(retryAfter);
    expect(await errorOf(response)).toMatchObject({
      code,
      message: 'models there are: a, b',
      param: null,
    });
  });
});
