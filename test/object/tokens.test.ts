import { describe, expect, it } from 'vitest';
import type { NewToken, TokenView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Tokens that are made, renewed and taken away while a real queue serves. */

const ADMIN = tokenEntry('wv_operator', ['admin'], { name: 'operator' });
const road = startTestQueue({ TOKENS: JSON.stringify([ADMIN]), QUEUE_MODEL_ALIASES: '' });

function ask(method: string, path: string, body?: object, token = 'wv_operator') {
  return fetch(`${road.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...REFUSED_FIRST },
    ...(body && { body: JSON.stringify(body) }),
  });
}

async function make(body: object): Promise<NewToken> {
  const response = await ask('POST', '/api/tokens', body);
  expect(response.status).toBe(201);
  return (await response.json()) as NewToken;
}

const codeOf = async (response: Response) =>
  ((await response.json()) as { error: { code: string } }).error.code;
const job = (model?: string) => ({
  job_type: 'chat_completion',
  config_id: 'cfg',
  payload: { ...(model && { model }), messages: [] },
});
const submit = (token: string, model?: string) => ask('POST', '/api/jobs', job(model), token);

describe('a token that is made while the queue runs', () => {
  it('is good at once, is shown once, and is listed without it', async () => {
    const { token, ...view } = await make({ name: 'team-a', scopes: ['submit'], tenant: 'a' });
    expect(token).toMatch(/^wv_[\w-]{43}$/);
    expect((await ask('GET', '/v1/models', undefined, token)).status).toBe(200);
    expect((await ask('GET', '/api/tokens', undefined, token)).status).toBe(403);
    const text = await (await ask('GET', '/api/tokens')).text();
    expect(text).not.toContain(token);
    const { tokens } = JSON.parse(text) as { tokens: TokenView[] };
    expect(tokens.map(({ name, source }) => [name, source])).toEqual([
      ['operator', 'file'],
      ['team-a', 'api'],
    ]);
    const listed = tokens[1]!;
    expect(listed).toEqual({ ...view, last_used_at: expect.any(String) });
    expect(listed).toMatchObject({ tenant: 'a', scopes: ['submit'], models: null });
  });

  it('outlives the process', async () => {
    const { token } = await make({ name: 'stays', scopes: ['submit'] });
    await road.restart();
    expect((await ask('GET', '/v1/models', undefined, token)).status).toBe(200);
  });

  it('is refused once it is rotated or revoked, and its successor is good', async () => {
    const first = await make({ name: 'turns', scopes: ['submit'] });
    const rotated = await ask('POST', '/api/tokens/turns/rotate');
    const second = (await rotated.json()) as NewToken;
    expect(second).toMatchObject({ name: 'turns', scopes: ['submit'] });
    expect((await ask('GET', '/v1/models', undefined, first.token)).status).toBe(401);
    expect((await ask('GET', '/v1/models', undefined, second.token)).status).toBe(200);
    expect((await ask('DELETE', '/api/tokens/turns')).status).toBe(200);
    const refused = await ask('GET', '/v1/models', undefined, second.token);
    expect([refused.status, await codeOf(refused)]).toEqual([401, 'token_unknown']);
    expect((await ask('GET', '/api/tokens/turns')).status).toBe(404);
    expect((await ask('DELETE', '/api/tokens/turns')).status).toBe(404);
  });

  it('expires', async () => {
    let made: NewToken | null = null;
    // On a busy machine the time may be over before the queue has read it.
    for (let seconds = 2; made === null && seconds <= 32; seconds *= 2) {
      const expires_at = new Date(Date.now() + seconds * 1000).toISOString();
      made = await make({ name: 'guest', scopes: ['submit'], expires_at }).catch(() => null);
    }
    const { token } = made!;
    await until(
      async () => (await ask('GET', '/v1/models', undefined, token)).status === 401,
      'it is refused',
    );
    const refused = await ask('GET', '/v1/models', undefined, token);
    expect(await codeOf(refused)).toBe('token_expired');
  });

  it('reaches its models alone, in every form', async () => {
    const { token } = await make({ name: 'small', scopes: ['submit'], models: ['qwen-*'] });
    const chat = (model?: string) => ask('POST', '/v1/chat/completions', { model, messages: [] }, token);
    expect(await codeOf(await chat('llama'))).toBe('model_denied');
    expect(await codeOf(await chat())).toBe('model_denied');
    // Let through: nobody serves it here.
    expect(await codeOf(await chat('qwen-7b'))).not.toBe('model_denied');
    expect(await codeOf(await submit(token, 'llama'))).toBe('model_denied');
    expect(await codeOf(await submit(token))).toBe('model_denied');
    expect((await submit(token, 'qwen-7b')).status).toBe(201);
    const inBody = {
      job_type: 'engine_request',
      config_id: 'cfg',
      payload: { path: '/v1/completions', body: '{"model":"llama","prompt":"x"}' },
    };
    expect(await codeOf(await ask('POST', '/api/jobs', inBody, token))).toBe('model_denied');
    const runpod = (input: object) => ask('POST', '/v2/default/run', { input }, token);
    expect((await runpod({ openai_route: '/v1/completions', openai_input: { model: 'llama' } })).status).toBe(
      403,
    );
    expect((await runpod({ prompt: 'x' })).status).toBe(403);
  });

  it('reaches its routes alone', async () => {
    const { token } = await make({ name: 'vectors', scopes: ['submit'], routes: ['/v1/embeddings'] });
    expect(await codeOf(await ask('GET', '/v1/models', undefined, token))).toBe('route_denied');
    const let_ = await ask('POST', '/v1/embeddings', { model: 'nobody', input: 'x' }, token);
    expect(await codeOf(let_)).not.toBe('route_denied');
  });

  it.each([
    [{ scopes: ['submit'] }, 400, 'invalid_token'],
    [{ name: 'x', scopes: ['everything'] }, 400, 'invalid_token'],
    [{ name: 'x', scopes: ['submit'], expires_at: 'tomorrow' }, 400, 'invalid_token'],
    [{ name: 'x', scopes: ['submit'], modles: ['a'] }, 400, 'invalid_token'],
    [{ name: 'x\u001b[2J', scopes: ['submit'] }, 400, 'invalid_token'],
    [{ name: '\ud800', scopes: ['submit'] }, 400, 'invalid_token'],
    [
      { name: 'x', scopes: ['submit'], limits: { models: JSON.parse('{"__proto__":{"running":1}}') } },
      400,
      'invalid_token',
    ],
    [{ name: 'operator', scopes: ['submit'] }, 409, 'token_exists'],
  ])('is refused when it is asked for as %j', async (body, status, code) => {
    const refused = await ask('POST', '/api/tokens', body);
    expect([refused.status, await codeOf(refused)]).toEqual([status, code]);
  });

  it('leaves those of the token file to the file', async () => {
    const refused = await ask('DELETE', '/api/tokens/operator');
    expect([refused.status, await codeOf(refused)]).toEqual([409, 'token_in_file']);
  });
});

describe('a queue that was started without tokens', () => {
  const open = startTestQueue();

  it('makes none, which would lock everybody out', async () => {
    const refused = await fetch(`${open.url}/api/tokens`, {
      method: 'POST',
      body: JSON.stringify({ name: 'first', scopes: ['submit'] }),
    });
    expect([refused.status, await codeOf(refused)]).toEqual([409, 'tokens_needed']);
  });
});
