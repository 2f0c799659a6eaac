import { createPublicKey } from 'node:crypto';
import { createServer } from 'node:http';
import { SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditEntry, TokenView } from '../../src/protocol/index.ts';
import { CLIENT_ID, type RunningIssuer, seconds, startIssuer } from '../support/oidc-provider.ts';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import { cli, isDeployed, type QueueProcess, startQueue, stateFolder, tearDown } from '../support/road.ts';

/** JWTs of a real issuer as tokens of a real queue. */

const RULES = [
  { group: 'admins', scopes: ['admin'] },
  { group: 'ml', scopes: ['submit', 'read'], tenant: 'research', models: ['tiny*'], limits: { running: 3 } },
];
// Cloudflare has no gateways apart, and another queue there takes long to start.
const onNode = it.skipIf(isDeployed);
let issuer: RunningIssuer;
let queue: QueueProcess;

beforeAll(async () => {
  issuer = await startIssuer();
  queue = await startQueue({ env: settings() });
});
afterAll(async () => {
  await tearDown();
  await issuer.stop();
});

function settings(rules: unknown = RULES) {
  return {
    QUEUE_OIDC_ISSUER: issuer.issuer,
    QUEUE_OIDC_CLIENT_ID: CLIENT_ID,
    QUEUE_OIDC_RULES: JSON.stringify(rules),
    QUEUE_TOKENS: 'admin:operators-token,gateway:gateways-token',
  };
}

/** A token of a person in a group. */
const of = (sub: string, groups: unknown, more = {}) => issuer.sign({ sub, groups, ...more });

const ask = (token: string, path = '/v1/models', init: RequestInit = {}) =>
  fetch(`${queue.url}${path}`, { ...init, headers: { authorization: `Bearer ${token}` } });

async function refusal(token: string): Promise<[status: number, code: string, message: string]> {
  const response = await ask(token);
  const { error } = (await response.json()) as { error?: { code: string; message: string } };
  return [response.status, error?.code ?? '', error?.message ?? ''];
}

async function entryOf(name: string): Promise<TokenView> {
  return (await (
    await ask('operators-token', `/api/tokens/${encodeURIComponent(name)}`)
  ).json()) as TokenView;
}

describe('a JWT of the issuer', () => {
  it('is taken wherever a token is, with the bounds of the first rule for its groups', async () => {
    const jwt = await of('1', ['guests', 'ml'], { email: 'ada@example.com' });
    expect((await ask(jwt)).status).toBe(200);
    expect(await entryOf('oidc:ada@example.com')).toMatchObject({
      scopes: ['submit', 'read'],
      tenant: 'research',
      models: ['tiny*'],
      limits: { running: 3 },
      source: 'oidc',
      oidc: { issuer: issuer.issuer, subject: '1', group: 'ml' },
    });
    const chat = await fetch(`${queue.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-api-key': jwt },
      body: JSON.stringify({ model: 'llama', messages: [] }),
    });
    expect(await chat.json()).toMatchObject({ error: { code: 'model_denied' } });
    expect((await ask(jwt, '/api/tokens')).status).toBe(403);
    expect((await ask(await of('2', 'admins'), '/api/tokens')).status).toBe(200);
  });

  it.each(['ES256', 'EdDSA'])('is taken signed with %s', async (alg) => {
    const jwt = await issuer.sign({ sub: 'signer', groups: ['ml'] }, { typ: 'at+jwt' }, alg);
    expect((await ask(jwt)).status).toBe(200);
  });

  it('is taken for a minute after its end, and not longer', async () => {
    expect((await ask(await of('1', ['ml'], { exp: seconds() - 20 }))).status).toBe(200);
    expect(await refusal(await of('1', ['ml'], { exp: seconds() - 90 }))).toEqual([
      401,
      'token_expired',
      expect.stringContaining('has expired'),
    ]);
  });

  it.each([
    ['of another audience', { aud: 'somebody-else' }, {}, 'its audience is "somebody-else"'],
    ['of another issuer', { iss: 'https://elsewhere.example' }, {}, 'its issuer is'],
    ['without an audience', { aud: undefined }, {}, 'its audience is null'],
    ['that never ends', { exp: undefined }, {}, '"exp"'],
    ['of nobody', { sub: undefined }, {}, '"sub"'],
    ['from later', { nbf: seconds() + 3600 }, {}, 'not good yet'],
    ['of a logout', {}, { typ: 'logout+jwt' }, 'its type is "logout+jwt"'],
    ['with an unknown key', {}, { kid: 'made up' }, 'no such key'],
  ])('is refused %s', async (_, claims, header, message) => {
    const jwt = await issuer.sign({ sub: '1', groups: ['ml'], ...claims }, header);
    const [status, code, said] = await refusal(jwt);
    expect([status, code]).toEqual([401, 'token_invalid']);
    expect(said).toContain(message);
  });

  it('is refused unsigned, signed with the public key as a secret, changed, and with a key of its own', async () => {
    const claims = { iss: issuer.issuer, aud: CLIENT_ID, sub: '2', groups: ['admins'], exp: seconds() + 300 };
    const key = createPublicKey({ key: JSON.parse(await issuer.publicKey()), format: 'jwk' });
    const pem = key.export({ type: 'spki', format: 'pem' });
    const confused = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256' })
      .sign(new TextEncoder().encode(String(pem)));
    const good = await of('1', ['ml']);
    const [header, , signature] = good.split('.');
    const changed = [header, Buffer.from(JSON.stringify(claims)).toString('base64url'), signature].join('.');
    for (const jwt of [new UnsecuredJWT(claims).encode(), confused, changed]) {
      const [status, code] = await refusal(jwt);
      expect([status, code]).toEqual([401, 'token_invalid']);
    }
  });

  it('reads no keys from where its header says', async () => {
    const attacker = await startIssuer();
    const asked: string[] = [];
    const server = createServer((incoming, outgoing) => {
      asked.push(incoming.url!);
      outgoing.end('{}');
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const jku = `http://127.0.0.1:${(server.address() as { port: number }).port}/jwks`;
    const jwk = JSON.parse(await attacker.publicKey());
    const jwt = await attacker.sign(
      { iss: issuer.issuer, sub: '2', groups: ['admins'] },
      { jku, x5u: jku, jwk, kid: `RS256 ${new URL(issuer.issuer).port}` },
    );
    expect((await refusal(jwt)).slice(0, 2)).toEqual([401, 'token_invalid']);
    expect(asked).toEqual([]);
    server.close();
    await attacker.stop();
  });

  it('has the keys read once more at most, however many keys are made up', async () => {
    const before = issuer.keyReads();
    await Promise.all(
      Array.from({ length: 20 }, async (_, n) =>
        ask(await issuer.sign({ sub: '1' }, { kid: `made up ${n}` })),
      ),
    );
    expect(issuer.keyReads() - before).toBeLessThanOrEqual(1);
  });

  it('of somebody without a rule is refused with the groups that it has', async () => {
    expect(await refusal(await of('9', ['guests'], { email: 'bob@example.com' }))).toEqual([
      403,
      'no_rule',
      expect.stringMatching(/no rule for "bob@example.com".*"groups", which lists "guests"/),
    ]);
    expect((await refusal(await of('9', undefined)))[2]).toContain('missing or empty');
    const odd = await refusal(await of('9', { ml: true }));
    expect(odd[2]).toContain('"groups", which is neither a list of texts nor one text');
  });
});

describe('a person', () => {
  it('has an entry of their own, whatever their address is', async () => {
    const email = 'shared@example.com';
    await ask(await of('3', ['ml'], { email }));
    await ask(await of('4', ['admins'], { email }));
    await ask(await of('5', ['admins'], { email: 'eve@example.com', email_verified: false }));
    expect(await entryOf(`oidc:${email}`)).toMatchObject({ oidc: { subject: '3' }, tenant: 'research' });
    expect(await entryOf('oidc:4')).toMatchObject({ oidc: { subject: '4' }, tenant: 'oidc:4' });
    await ask(await of('14', ['admins'], { email: 'mallory@example.com', email_verified: 'false' }));
    expect(await entryOf('oidc:5')).toMatchObject({ oidc: { subject: '5' } });
    expect(await entryOf('oidc:14')).toMatchObject({ oidc: { subject: '14' } });
  });

  it('keeps what an administrator has set, and loses it again to the rule', async () => {
    const jwt = await of('6', ['ml']);
    await ask(jwt);
    const patch = (body: object) =>
      fetch(`${queue.url}/api/tokens/oidc:6`, {
        method: 'PATCH',
        headers: { authorization: 'Bearer operators-token' },
        body: JSON.stringify(body),
      });
    expect(await (await patch({ limits: { running: 1 } })).json()).toMatchObject({
      limits: { running: 1 },
      models: ['tiny*'],
    });
    expect((await ask(jwt)).status).toBe(200);
    expect(await entryOf('oidc:6')).toMatchObject({ limits: { running: 1 } });
    expect(await (await patch({ limits: null })).json()).toMatchObject({ limits: { running: 3 } });
  });

  it('has the rights of the groups in their newest token', async () => {
    await ask(await of('7', ['ml']));
    expect((await ask(await of('7', ['admins']), '/api/tokens')).status).toBe(200);
    expect(await entryOf('oidc:7')).toMatchObject({ scopes: ['admin'], limits: null });
    const { entries } = (await (await ask('operators-token', '/api/audit?target=oidc:7')).json()) as {
      entries: AuditEntry[];
    };
    expect(entries.map(({ action, actor, subject }) => [action, actor, subject])).toEqual([
      ['person.change', 'oidc:7', '7'],
      ['person.join', 'oidc:7', '7'],
    ]);
    expect(entries[1]!.after).toMatchObject({ oidc: { issuer: issuer.issuer, subject: '7' } });
    expect(JSON.stringify(entries)).not.toContain('sha256');
  });

  it('gets no rights back by a token from before they lost a group', async () => {
    const before = await of('13', ['admins'], { iat: seconds() - 30 });
    expect((await ask(before, '/api/tokens')).status).toBe(200);
    expect((await ask(await of('13', ['ml']))).status).toBe(200);
    expect((await ask(before, '/api/tokens')).status).toBe(403);
    expect((await ask(before)).status).toBe(200);
    expect(await entryOf('oidc:13')).toMatchObject({ oidc: { group: 'ml' } });
  });

  it('is named in the audit with their subject for what they do', async () => {
    const jwt = await of('10', ['admins'], { email: 'boss@example.com' });
    await fetch(`${queue.url}/api/tokens`, {
      method: 'POST',
      headers: { authorization: `Bearer ${jwt}` },
      body: JSON.stringify({ name: 'of-a-person', scopes: ['submit'] }),
    });
    const page = await ask('operators-token', '/api/audit?target=of-a-person');
    expect(((await page.json()) as { entries: AuditEntry[] }).entries).toEqual([
      expect.objectContaining({ actor: 'oidc:boss@example.com', subject: '10', action: 'token.create' }),
    ]);
  });

  it('is refused once revoked, though the token is good, until the access is given back', async () => {
    const jwt = await of('8', ['ml']);
    const change = (method: string, body?: object) =>
      fetch(`${queue.url}/api/tokens/oidc:8`, {
        method,
        headers: { authorization: 'Bearer operators-token' },
        ...(body && { body: JSON.stringify(body) }),
      });
    await ask(jwt);
    expect((await change('DELETE')).status).toBe(200);
    await until(async () => (await ask(jwt)).status === 403, 'the person is refused');
    expect((await refusal(jwt)).slice(0, 2)).toEqual([403, 'access_ended']);
    expect((await refusal(await of('8', ['admins'])))[1]).toBe('access_ended');
    const rotated = await fetch(`${queue.url}/api/tokens/oidc:8/rotate`, {
      method: 'POST',
      headers: { authorization: 'Bearer operators-token' },
    });
    expect(rotated.status).toBe(409);
    expect((await change('PATCH', { expires_at: null })).status).toBe(200);
    expect((await ask(jwt)).status).toBe(200);
  });
});

describe('a sign-in on the page', () => {
  const begin = (page: string, headers: Record<string, string> = {}) =>
    fetch(`${queue.url}/api/session/oidc`, {
      method: 'POST',
      headers: { 'sec-fetch-site': 'same-origin', ...headers },
      body: JSON.stringify({ page, at: `${page}jobs` }),
    });

  it('leads to the issuer, and back to the address under which a proxy shows the page', async () => {
    const response = await begin('https://queue.example.com/llm/', {
      'x-forwarded-host': 'queue.example.com',
      'x-forwarded-proto': 'https',
      'x-forwarded-prefix': '/llm',
    });
    const { url } = (await response.json()) as { url: string };
    const { origin, searchParams } = new URL(url);
    expect(origin).toBe(issuer.issuer);
    expect(Object.fromEntries(searchParams)).toMatchObject({
      response_type: 'code',
      redirect_uri: 'https://queue.example.com/llm/api/session/oidc/callback',
      code_challenge_method: 'S256',
      scope: 'openid email',
    });
    expect(response.headers.get('set-cookie')).toMatch(
      /^worker-vllm-oidc=\S+; Path=\/llm\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
    );
  });

  it('is begun by the own page alone, for its own address', async () => {
    expect((await begin(`${queue.url}/`)).status).toBe(200);
    expect((await begin(`${queue.url}/`, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    for (const page of ['https://evil.example/', `${queue.url}/?x=/`, 'javascript:alert(1)/', queue.url])
      expect((await begin(page)).status).toBe(400);
  });

  it('leads back into the page, whatever the address looked like', async () => {
    const page = `${queue.url}/`;
    const response = await fetch(`${queue.url}/api/session/oidc`, {
      method: 'POST',
      headers: { 'sec-fetch-site': 'same-origin' },
      body: JSON.stringify({ page, at: `${page}//evil.example/jobs` }),
    });
    const [sealed] = response.headers.get('set-cookie')!.split('=')[1]!.split('.');
    const { view } = JSON.parse(Buffer.from(sealed!, 'base64url').toString());
    expect(view).toBe('evil.example/jobs');
  });
});

describe('an issuer that is away', () => {
  onNode('does not end what is known, and is said to be away where nothing is', async () => {
    const jwt = await of('1', ['ml']);
    expect((await ask(jwt)).status).toBe(200);
    const port = Number(new URL(issuer.issuer).port);
    await issuer.stop();
    expect((await ask(jwt)).status).toBe(200);
    const other = await startQueue({ env: settings() });
    const response = await fetch(`${other.url}/v1/models`, { headers: { authorization: `Bearer ${jwt}` } });
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '5']);
    expect(await response.json()).toMatchObject({ error: { code: 'issuer_away' } });
    const own = await fetch(`${other.url}/v1/models`, {
      headers: { authorization: 'Bearer operators-token' },
    });
    expect(own.status).toBe(200);
    issuer = await startIssuer({ port });
  });
});

onNode('is the same person at a gateway apart, and revoked there within a second', async () => {
  const port = await freePort();
  const gateway = cli(['gateway', '--queue', queue.url, '--port', String(port)], {
    GATEWAY_TOKEN: 'gateways-token',
  });
  await gateway.waitForLine(/listening at/);
  const jwt = await of('11', ['ml']);
  const there = () =>
    fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { authorization: `Bearer ${jwt}` } });
  expect((await there()).status).toBe(200);
  // Each process reads the list of tokens once a second, and another one made this entry.
  await until(async () => (await entryOf('oidc:11')).tenant === 'research', 'the person has an entry');
  await ask('operators-token', '/api/tokens/oidc:11', { method: 'DELETE' });
  await until(async () => (await there()).status === 403, 'the gateway refuses the person');
});

onNode('refuses settings that cannot be used, by their names', async () => {
  const start = async (changes: Record<string, string>) => {
    const refused = cli(['queue', '--port', '0', '--state', stateFolder()], { ...settings(), ...changes });
    expect(await refused.exited).toMatchObject({ code: 2 });
    return refused.output();
  };
  const [unsafe, tokenless] = await Promise.all([
    start({ QUEUE_OIDC_ISSUER: 'http://login.example.com', QUEUE_OIDC_RULES: '{' }),
    start({ QUEUE_TOKENS: '' }),
  ]);
  expect(unsafe).toMatch(/QUEUE_OIDC_ISSUER=.*expected https/);
  expect(unsafe).toMatch(/QUEUE_OIDC_RULES=.*expected JSON/);
  expect(tokenless).toContain('workers and programs need tokens');
});
