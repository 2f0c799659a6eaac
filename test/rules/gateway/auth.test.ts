import { describe, expect, it } from 'vitest';
import { authorize, requireWorkerId, tenantOf, viewerOf } from '../../../src/gateway/auth/authorize.ts';
import { configuredTokens } from '../../../src/gateway/auth/tokens.ts';
import type { AuthSettings } from '../../../src/gateway/env.ts';
import type { Scope, TokenEntry } from '../../../src/settings/token-entry.ts';
import { playedObjects } from '../../support/objects.ts';
import { tokenEntry } from '../../support/token-entry.ts';

function entry(token: string, ...scopes: Scope[]): TokenEntry {
  return tokenEntry(token, scopes, { name: `for ${scopes.join(' and ')}` });
}

/** A fleet object that keeps no tokens. */
const NO_TOKENS = playedObjects({
  fleet: () => ({ tokens: async () => ({ version: 1, entries: [] }), tokenUses: async () => ({}) }),
});

const TOKENS = [
  entry('wv_worker', 'worker'),
  entry('wv_submit', 'submit', 'read'),
  entry('wv_admin', 'admin'),
];

function request(headers: Record<string, string> = {}, url = 'http://queue.example/v1/models'): Request {
  return new Request(url, { headers });
}

/** The status a request is refused with; 200: let through. */
async function statusOf(
  asked: Request,
  anyOf: Scope[],
  tokens = TOKENS,
  more: Partial<AuthSettings> = {},
): Promise<number> {
  return authorize(asked, { objects: NO_TOKENS, ...more, TOKENS: JSON.stringify(tokens) }, anyOf).then(
    () => 200,
    (error) => error.status,
  );
}

describe('a queue with tokens', () => {
  it.each([
    ['Bearer wv_worker', 'worker', 200],
    ['bearer wv_worker', 'worker', 200],
    ['Bearer wv_worker', 'submit', 403],
    ['Bearer wv_submit', 'read', 200],
    ['Bearer wv_admin', 'worker', 200],
    ['Bearer wv_worke', 'worker', 401],
    ['Bearer ', 'worker', 401],
    ['wv_worker', 'worker', 401],
    ['Basic wv_worker', 'worker', 401],
  ] as const)('answers "%s" on a route for %s with %i', async (authorization, scope, status) => {
    expect(await statusOf(request({ authorization }), [scope])).toBe(status);
  });

  it('takes the bare key on routes of RunPod', async () => {
    const asked = (path: string) =>
      new Request(`http://queue.example${path}`, { headers: { authorization: 'wv_submit' } });
    expect(await statusOf(asked('/v2/e/run'), ['submit'])).toBe(200);
    expect(await statusOf(asked('/v2/rerank'), ['submit'])).toBe(401);
  });

  it('takes the header of Anthropic’s clients', async () => {
    expect(await statusOf(request({ 'x-api-key': 'wv_submit' }), ['submit'])).toBe(200);
    expect(await statusOf(request({ 'x-api-key': 'wv_submi' }), ['submit'])).toBe(401);
    const both = { 'x-api-key': 'wv_submit', authorization: 'Bearer wv_worker' };
    expect(await statusOf(request(both), ['submit'])).toBe(403);
  });

  it('refuses a request without a token', async () => {
    expect(await statusOf(request(), ['read'])).toBe(401);
  });

  it('lets one of several scopes be enough', async () => {
    expect(await statusOf(request({ authorization: 'Bearer wv_worker' }), ['read', 'worker'])).toBe(200);
  });

  it('serves pages and names of anywhere that hold a token', async () => {
    const headers = { authorization: 'Bearer wv_submit', origin: 'https://app.example' };
    expect(await statusOf(request(headers), ['submit'])).toBe(200);
  });

  it('says which scope a token has and which is asked for, and does not repeat the token', async () => {
    const refused = authorize(
      request({ authorization: 'Bearer wv_worker' }),
      { objects: NO_TOKENS, TOKENS: JSON.stringify(TOKENS) },
      ['submit', 'read'],
    );
    await expect(refused).rejects.toThrow(/has the scope worker; this route asks for submit or read/);
    await expect(refused).rejects.not.toThrow(/wv_worker/);
  });
});

describe('a queue without tokens', () => {
  const LOCAL = 'http://127.0.0.1:8788/v1/models';

  it('takes 0.0.0.0 for this machine, and names that are set', async () => {
    const ask = (url: string, LOCAL_HOSTS?: string) =>
      statusOf(request({}, url), ['read'], [], LOCAL_HOSTS === undefined ? {} : { LOCAL_HOSTS });
    expect(await ask('http://0.0.0.0:8788/v1/models')).toBe(200);
    expect(await ask('http://host.docker.internal:8788/v1/models')).toBe(403);
    expect(await ask('http://host.docker.internal:8788/v1/models', 'a, host.docker.internal')).toBe(200);
    expect(await ask('http://evil.example/v1/models', 'host.docker.internal')).toBe(403);
  });

  it.each([
    ['http://127.0.0.1:8788/', {}, 200],
    ['http://localhost:8788/', {}, 200],
    ['http://[::1]:8788/', {}, 200],
    [LOCAL, { origin: 'http://localhost:3000' }, 200],
    [LOCAL, { origin: 'https://evil.example' }, 403],
    [LOCAL, { origin: 'https://localhost.evil.example' }, 403],
    [LOCAL, { origin: 'null' }, 403],
    [LOCAL, { 'x-forwarded-for': '203.0.113.7' }, 403],
    [LOCAL, { 'x-forwarded-for': '127.0.0.1' }, 403],
    [LOCAL, { forwarded: 'for=203.0.113.7' }, 403],
    [LOCAL, { 'x-real-ip': '203.0.113.7' }, 403],
    [LOCAL, { via: '1.1 proxy' }, 403],
    ['http://evil.example:8788/', {}, 403],
    ['http://127.0.0.1.evil.example/', {}, 403],
  ] as const)('answers %s with %j by %i', async (url, headers, status) => {
    expect(await statusOf(request(headers, url), ['admin'], [])).toBe(status);
  });
});

describe('what a token sees of jobs', () => {
  const named = (more: Partial<TokenEntry>): TokenEntry => ({
    ...entry('x', 'submit'),
    name: 'app',
    ...more,
  });

  it.each([
    [named({}), 'app', 'app'],
    [named({ tenant: 'team' }), 'team', 'team'],
    [named({ tenant: 'team', scopes: ['submit', 'read'] }), 'team', null],
    [named({ scopes: ['admin'] }), 'app', null],
    [named({ scopes: ['worker'] }), 'app', 'app'],
    [null, null, null],
  ])('is that of its tenant, or all: %j', (token, tenant, viewer) => {
    expect([tenantOf(token), viewerOf(token)]).toEqual([tenant, viewer]);
  });
});

describe('a token for certain workers', () => {
  const bound = { ...entry('x', 'worker'), worker_id: 'runpod-*' };

  it('lets these through, and names both ids to others', () => {
    expect(() => requireWorkerId(bound, 'runpod-7')).not.toThrow();
    expect(() => requireWorkerId(bound, 'vast-7')).toThrow(/"runpod-\*", not "vast-7"/);
    expect(() => requireWorkerId(bound, 'vast-7')).toThrow(expect.objectContaining({ status: 403 }));
    expect(() => requireWorkerId(entry('x', 'worker'), 'vast-7')).not.toThrow();
    expect(() => requireWorkerId(null, 'vast-7')).not.toThrow();
  });
});

describe('the configured tokens', () => {
  it('are none when the text is empty or absent', () => {
    expect(configuredTokens({})).toEqual([]);
    expect(configuredTokens({ TOKENS: '[]' })).toEqual([]);
  });

  it('are read from JSON', () => {
    expect(configuredTokens({ TOKENS: JSON.stringify(TOKENS) })).toEqual(TOKENS);
  });

  it.each(['{', '{}', '[{"name":"a","sha256":"xyz","scopes":["read"]}]', '[{"name":"a"}]'])(
    'fail loudly rather than leave the queue open: %s',
    (text) => {
      expect(() => configuredTokens({ TOKENS: text })).toThrow();
      expect(() => configuredTokens({ TOKENS: text })).toThrow();
    },
  );
});
