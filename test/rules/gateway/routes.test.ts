import { describe, expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../src/features/index.ts';
import { createApp } from '../../../src/gateway/app.ts';
import type { GatewayEnv } from '../../../src/gateway/env.ts';
import { queueIdOf } from '../../../src/gateway/objects/ids.ts';
import { acceptNothing } from '../../support/objects.ts';

/** Bindings that note which objects are asked for, and let none be reached. */
function watched(more: Partial<GatewayEnv> = {}) {
  const touched: string[] = [];
  const touch = (queueId: string) => {
    touched.push(queueId);
    throw new Error('no object can be reached here');
  };
  const env: GatewayEnv = {
    objects: {
      ...{ queue: touch, relay: touch, fleet: touch, batches: touch, files: touch },
      ...{ responses: touch, keptRequests: touch },
    },
    acceptUpgrade: acceptNothing,
    FILE_KEY_SECRET: 'secret',
    ...more,
  };
  return { env, touched };
}

const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };

/** Every route of the gateway with a method that it has, its parameters filled in. */
function routes(): { method: string; path: string }[] {
  const all = createApp(FEATURE_ROUTES).routes.filter(({ method }) => method !== 'ALL');
  const asked = all.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+(\{[^}]*\})?/g, 'x')}`);
  const passedThrough = ['POST /v1/chat/completions', 'POST /v1/audio/transcriptions', 'GET /version'];
  return [...new Set([...asked, ...passedThrough])].map((text) => {
    const [method = '', path = ''] = text.split(' ');
    return { method, path };
  });
}

async function ask(env: GatewayEnv, { method, path }: { method: string; path: string }, query: string) {
  const body = method === 'GET' ? null : JSON.stringify({ instance_id: 'i', status: 'running' });
  const headers = {
    upgrade: /^\/(ws|answers|api\/jobs\/socket|api\/fleet\/live|v1\/responses)$/.test(path)
      ? 'websocket'
      : '',
  };
  const request = new Request(`http://localhost${path}?worker_id=w&${query}`, { method, body, headers });
  return await createApp(FEATURE_ROUTES).fetch(request, env, context as never);
}

/** These concern no queue. */
const QUEUELESS = /^\/(openapi\.json|schemas)$/;

describe('a queue that may not exist', () => {
  it.each(routes().filter(({ path }) => !QUEUELESS.test(path)))(
    'is not made by $method $path',
    async (route) => {
      const { env, touched } = watched();
      const response = await ask(env, route, 'queue_id=stranger&fence_token=1&key=x');
      expect(touched).toEqual([]);
      expect(response.status).toBe(404);
    },
  );

  it('is not made by a heartbeat that names it', async () => {
    const { env, touched } = watched();
    const body = JSON.stringify({ instance_id: 'i', status: 'running', queue_id: 'stranger' });
    const request = new Request('http://localhost/api/heartbeats', { method: 'POST', body });
    expect((await createApp(FEATURE_ROUTES).fetch(request, env)).status).toBe(404);
    expect(touched).toEqual([]);
  });

  it('is told what to set', () => {
    expect(() => queueIdOf(watched().env, new Request('http://localhost/?queue_id=a'))).toThrow(
      /"a".*QUEUE_IDS/,
    );
  });
});

it('a path that there is not is 404, and a method that a path does not have 405', async () => {
  const status = async (method: string, path: string) => {
    const response = await createApp(FEATURE_ROUTES).fetch(
      new Request(`http://localhost${path}`, { method }),
      watched().env,
    );
    return [response.status, response.headers.get('allow')];
  };
  expect(await status('GET', '/nothing')).toEqual([404, null]);
  expect(await status('GET', '/v1/chat/completions')).toEqual([405, 'POST']);
});

it.each([
  ['POST', '/chat/completions', "There is no POST /chat/completions. End the client's base URL with /v1."],
  ['GET', '/models/m', "There is no GET /models/m. End the client's base URL with /v1."],
  [
    'POST',
    '/v1/v1/messages',
    "There is no POST /v1/v1/messages. Take one /v1 off the end of the client's base URL.",
  ],
  ['GET', '/v1', 'There is no GET /v1. GET /openapi.json lists the routes.'],
])('%s %s says how the base URL of a client is mended', async (method, path, message) => {
  const request = new Request(`http://localhost${path}`, { method });
  const response = await createApp(FEATURE_ROUTES).fetch(request, watched().env);
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ error: { code: 'route_not_found', message } });
});

describe('the id of a request', () => {
  const ask = async (id: string | null, path = '/nothing', method = 'GET') => {
    const headers = new Headers(id === null ? {} : { 'x-request-id': id });
    const request = new Request(`http://localhost${path}`, { method, headers });
    return await createApp(FEATURE_ROUTES).fetch(request, watched().env, context as never);
  };
  const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

  it.each(routes())('comes back from $method $path, whatever that answers', async ({ method, path }) => {
    expect((await ask('caller-17', path, method)).headers.get('x-request-id')).toBe('caller-17');
  });

  it('comes back with a 404 and a 405 too, and is made where there is none, or none that could go on', async () => {
    expect((await ask('a/b:c', '/nothing')).headers.get('x-request-id')).toBe('a/b:c');
    expect((await ask('x', '/v1/chat/completions')).headers.get('x-request-id')).toBe('x');
    for (const id of [null, '', 'a b', 'é', 'x'.repeat(129), '___prefill_addr_h:1___decode_addr_h:2_0']) {
      expect((await ask(id)).headers.get('x-request-id')).toMatch(uuid);
    }
    expect((await ask('x'.repeat(128))).headers.get('x-request-id')).toHaveLength(128);
  });
});

it('errors of /v1/messages have the shape of Anthropic, with the id of the request', async () => {
  const ask = async (init: RequestInit, more: Partial<GatewayEnv> = {}) => {
    const request = new Request('http://localhost/v1/messages', {
      ...init,
      headers: { ...init.headers, 'x-request-id': 'r1' },
    });
    const response = await createApp(FEATURE_ROUTES).fetch(request, watched(more).env, context as never);
    expect(response.headers.get('request-id')).toBe('r1');
    return [response.status, await response.json()];
  };
  const error = (type: string) => ({
    type: 'error',
    error: { type, message: expect.any(String) },
    request_id: 'r1',
  });
  const post = { method: 'POST', body: '{"model":' };
  expect(await ask(post)).toEqual([400, error('invalid_request_error')]);
  expect(await ask({ method: 'GET' })).toEqual([405, error('invalid_request_error')]);
  expect(await ask({ ...post, headers: { 'x-queue-id': 'other' } })).toEqual([404, error('not_found_error')]);
  expect(await ask({ ...post, headers: { 'content-length': '99999999' } })).toEqual([
    413,
    error('request_too_large'),
  ]);
  expect(await ask({ ...post, headers: { origin: 'https://elsewhere.example' } })).toEqual([
    403,
    error('permission_error'),
  ]);
  const token = JSON.stringify([{ name: 't', scopes: ['submit'], sha256: '0'.repeat(64) }]);
  expect(await ask(post, { TOKENS: token })).toEqual([401, error('authentication_error')]);
  expect(await ask({ method: 'POST', body: '{"model":"m"}' })).toEqual([500, error('api_error')]);
});

describe('a web page', () => {
  const ask = async (origin: string, init: RequestInit = {}, env: Partial<GatewayEnv> = {}) => {
    const headers = { ...init.headers, origin };
    const request = new Request('http://localhost/v1/chat/completions', { ...init, headers });
    return await createApp(FEATURE_ROUTES).fetch(request, watched(env).env, context as never);
  };
  const preflight = {
    method: 'OPTIONS',
    headers: {
      'access-control-request-method': 'POST',
      'access-control-request-headers':
        'authorization,content-type,x-stainless-os,anthropic-version,x-api-key',
    },
  };
  const allowed = (response: Response) => response.headers.get('access-control-allow-origin');
  const CORS_ORIGINS = 'https://app.example.com, https://*.example.org';

  it('of this machine may ask for whatever clients of each API send, without cookies', async () => {
    const response = await ask('http://localhost:3000', preflight);
    expect([response.status, allowed(response)]).toEqual([204, 'http://localhost:3000']);
    expect(response.headers.get('access-control-allow-headers')).toBe(
      preflight.headers['access-control-request-headers'],
    );
    expect(response.headers.get('access-control-allow-methods')).toBe('GET,POST,DELETE');
    expect(response.headers.get('vary')).toMatch(/origin/i);
    expect(response.headers.has('access-control-allow-credentials')).toBe(false);
  });

  it.each([
    ['https://app.example.com', CORS_ORIGINS, true],
    ['https://a.example.org', CORS_ORIGINS, true],
    ['https://other.example.com', CORS_ORIGINS, false],
    ['https://app.example.com:8443', CORS_ORIGINS, false],
    ['null', CORS_ORIGINS, false],
    ['https://other.example.com', '*', true],
    ['https://app.example.com', '', false],
  ])('of %s may where %j is set: %s', async (origin, text, may) => {
    const response = await ask(origin, preflight, { CORS_ORIGINS: text });
    expect(allowed(response)).toBe(may ? origin : null);
  });

  it('may read errors too, and the ids of its request', async () => {
    const response = await ask('http://127.0.0.1:5173', { method: 'POST', body: '{' });
    expect([response.status, allowed(response)]).toEqual([400, 'http://127.0.0.1:5173']);
    expect(response.headers.get('access-control-expose-headers')).toMatch(/x-request-id.*x-job-id/);
    const missing = await ask('http://127.0.0.1:5173', { method: 'GET' });
    expect([missing.status, allowed(missing)]).toEqual([405, 'http://127.0.0.1:5173']);
  });

  it('beyond this machine may do nothing without tokens, whatever is set', async () => {
    const response = await ask('https://app.example.com', { method: 'POST', body: '{}' }, { CORS_ORIGINS });
    expect(response.status).toBe(403);
  });
});

describe('the ids that queues may have', () => {
  const idOf = (ids: string | undefined, id: string) => {
    const env = watched(ids === undefined ? {} : { QUEUE_IDS: ids }).env;
    return queueIdOf(env, new Request('http://localhost/', { headers: { 'x-queue-id': id } }));
  };

  it.each([
    [undefined, 'vllm-queue'],
    ['', 'vllm-queue'],
    ['a, b', 'b'],
    ['vllm-queue,team-*', 'team-red'],
    ['*-queue', 'my-queue'],
    ['a*c*e', 'abcde'],
    ['*', 'anything'],
  ])('are taken from %j: %j', (ids, id) => {
    expect(idOf(ids, id)).toBe(id);
  });

  it.each([
    [undefined, 'vllm-queue2'],
    ['a,b', 'ab'],
    ['team-*', 'my-team-red'],
    ['ab*ba', 'aba'],
    ['a.c', 'abc'],
    ['a', 'vllm-queue'],
  ])('do not include, for %j, %j', (ids, id) => {
    expect(() => idOf(ids, id)).toThrow(expect.objectContaining({ status: 404, code: 'queue_not_found' }));
  });

  it.each(['', 'x'.repeat(257)])('have 1 to 256 characters', (id) => {
    expect(() => idOf('*', id)).toThrow(expect.objectContaining({ status: 400 }));
  });
});

describe('the address of a file', () => {
  const address = { method: 'GET', path: '/jobs/x/payload' };

  it('is of no use on another host while there are no tokens, whatever its key', async () => {
    const { env, touched } = watched();
    const request = new Request(
      'http://queue.example/jobs/x/payload?queue_id=vllm-queue&fence_token=1&key=x',
    );
    expect((await createApp(FEATURE_ROUTES).fetch(request, env)).status).toBe(403);
    expect(touched).toEqual([]);
  });

  it('says what to set where there is no secret to check it with, and asks no queue', async () => {
    const { env, touched } = watched({ FILE_KEY_SECRET: '' });
    const response = await ask(env, address, 'queue_id=vllm-queue&fence_token=1&key=x');
    expect(response.status).toBe(503);
    expect(await response.text()).toMatch(/FILE_KEY_SECRET/);
    expect(touched).toEqual([]);
  });
});
