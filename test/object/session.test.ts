import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Signing in to the page, and what may be done with its cookie, in a real queue. */

const TOKENS = [
  tokenEntry('app', ['submit']),
  tokenEntry('reader', ['read']),
  tokenEntry('watching-app', ['submit', 'read']),
  tokenEntry('operator', ['admin']),
  tokenEntry('gpu', ['worker']),
];

const road = startTestQueue({ TOKENS: JSON.stringify(TOKENS) });
const OWN = { 'sec-fetch-site': 'same-origin' };

async function signIn(token: string, headers: Record<string, string> = OWN) {
  const response = await fetch(`${road.url}/api/session`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ token }),
  });
  const cookie = response.headers.get('set-cookie') ?? '';
  return { status: response.status, cookie, pair: cookie.split(';')[0]!, body: await response.json() };
}

const ask = (path: string, pair: string, init: RequestInit = {}) =>
  fetch(`${road.url}${path}`, { ...init, headers: { cookie: pair, ...(init.headers as object) } });

describe('signing in', () => {
  it('gives a cookie that pages cannot read, for twelve hours, and keeps no token', async () => {
    const { status, cookie, pair, body } = await signIn('reader');
    expect(status).toBe(200);
    expect(cookie).toMatch(/^worker-vllm=[\da-f]{64}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
    expect(body).toMatchObject({ asks_for_token: true, name: 'reader', scopes: ['read'] });
    expect(await (await ask('/api/session', pair)).json()).toMatchObject({ name: 'reader' });
    expect((await ask('/api/workers', pair)).status).toBe(200);
    expect((await ask('/api/workers', 'worker-vllm=made-up')).status).toBe(401);
  });

  it('over TLS gives one that belongs to this host alone', async () => {
    const { cookie, pair } = await signIn('reader', { ...OWN, 'x-forwarded-proto': 'https' });
    expect(cookie).toMatch(/^__Host-worker-vllm=.*; Path=\/; .*; Secure$/);
    expect((await ask('/api/workers', pair)).status).toBe(200);
  });

  it('is refused with an unknown token, with one for workers, and to pages of others', async () => {
    expect((await signIn('stranger')).status).toBe(401);
    expect((await signIn('gpu')).status).toBe(403);
    expect((await signIn('reader', { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await signIn('reader', {})).status).toBe(403);
    expect((await signIn('reader', { origin: 'https://evil.example' })).status).toBe(403);
    expect((await signIn('reader', { origin: road.url })).status).toBe(200);
  });

  it('of one token a hundred times signs nobody else out, and its first browser alone after that', async () => {
    const other = await signIn('reader');
    const first = await signIn('app');
    for (let n = 0; n < 10; n++) await Promise.all(Array.from({ length: 110 }, () => signIn('app')));
    const newest = await signIn('app');
    expect((await ask('/api/jobs', first.pair)).status).toBe(401);
    expect((await ask('/api/jobs', newest.pair)).status).toBe(200);
    expect((await ask('/api/workers', other.pair)).status).toBe(200);
  });

  it('out ends what is shown live, of every queue', async () => {
    const { pair } = await signIn('reader');
    const live = (query: string) => {
      const url = `${road.url.replace('http', 'ws')}/api/fleet/live${query}`;
      const socket = new WebSocket(url, { headers: { cookie: pair, ...OWN } });
      socket.on('error', () => {});
      const shown = { isClosed: false };
      socket.once('open', () => socket.send('{"type":"watch"}'));
      socket.once('close', () => {
        shown.isClosed = true;
      });
      return new Promise<typeof shown>((done) => socket.once('message', () => done(shown)));
    };
    const [here, elsewhere] = await Promise.all([live(''), live('?queue_id=other')]);
    await ask('/api/session', pair, { method: 'DELETE', headers: OWN });
    await until(() => here.isClosed && elsewhere.isClosed, 'both to be closed');
  });

  it('ends with signing out, and with the revocation of the token, and outlasts a restart', async () => {
    const [leaving, staying] = [await signIn('reader'), await signIn('app')];
    const left = await ask('/api/session', leaving.pair, { method: 'DELETE', headers: OWN });
    expect(left.status).toBe(204);
    expect(left.headers.get('set-cookie')).toMatch(/Max-Age=0/);
    expect((await ask('/api/workers', leaving.pair)).status).toBe(401);
    await road.restart();
    expect((await ask('/api/jobs', staying.pair)).status).toBe(200);
    await road.restart({ TOKENS: JSON.stringify(TOKENS.slice(1)) });
    expect((await ask('/api/jobs', staying.pair)).status).toBe(401);
    expect(await (await ask('/api/session', staying.pair)).json()).toMatchObject({ name: null, scopes: [] });
    await road.restart();
  });
});

describe('the cookie', () => {
  const job = { job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };

  it('may do what its token may, and no more', async () => {
    const { pair } = await signIn('reader');
    const init = { method: 'POST', headers: OWN, body: JSON.stringify(job) };
    expect((await ask('/api/jobs', pair, init)).status).toBe(403);
    const submitter = await signIn('app');
    expect((await ask('/api/jobs', submitter.pair, init)).status).toBe(201);
    expect((await ask('/api/workers', submitter.pair)).status).toBe(403);
  });

  it.each([
    [{ 'sec-fetch-site': 'same-origin' }, 201],
    [{ 'sec-fetch-site': 'same-site' }, 403],
    [{ 'sec-fetch-site': 'cross-site', origin: 'OWN' }, 403],
    [{ origin: 'OWN' }, 201],
    [{ origin: 'http://127.0.0.1:1' }, 403],
    [{ origin: 'https://queue.example', 'x-forwarded-host': 'queue.example' }, 201],
    [{}, 403],
  ] as [Record<string, string>, number][])(
    'changes something for a page that says %j: %i',
    async (given, status) => {
      const { pair } = await signIn('app');
      const headers = { ...given, ...(given.origin === 'OWN' && { origin: road.url }) };
      expect(
        (await ask('/api/jobs', pair, { method: 'POST', headers, body: JSON.stringify(job) })).status,
      ).toBe(status);
    },
  );

  it('opens a WebSocket for our page alone', async () => {
    const { pair } = await signIn('app');
    const open = (origin: string) =>
      new Promise((done) => {
        const socket = new WebSocket(`${road.url.replace('http', 'ws')}/api/jobs/socket`, {
          headers: { cookie: pair, origin },
        });
        socket.once('open', () => {
          socket.terminate();
          done(101);
        });
        socket.once('unexpected-response', (_, { statusCode }) => done(statusCode));
        socket.once('error', () => {});
      });
    expect(await open(road.url)).toBe(101);
    expect(await open('http://evil.example')).toBe(403);
  });
});

describe('payloads and results', () => {
  /** What is had of a finished job of the tenant `app`: its result, and its payload's status. */
  async function seenBy(headers: Record<string, string>) {
    const answer = await fetch(`${road.url}/api/jobs/done`, { headers });
    const view = (await answer.json()) as JobView;
    const [payload, result] = await Promise.all(
      ['payload', 'result'].map((what) => fetch(`${road.url}/api/jobs/done/${what}`, { headers })),
    );
    return [view.state, view.result, view.withheld, payload!.status, result!.status];
  }
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

  it('are for whoever submitted, and shown to others only as far as is set', async () => {
    const submission = { job_type: 'chat_completion', config_id: 'shown', payload: { messages: ['secret'] } };
    const body = JSON.stringify({ ...submission, id: 'done' });
    await fetch(`${road.url}/api/jobs`, { method: 'POST', headers: bearer('app'), body });
    const worker = await (await new RawWorker(road.url, 'gpu').connect()).register('w', {
      config_id: 'shown',
    });
    worker.result(await worker.job(), { text: 'whispered' });
    await worker.next('ack');
    const result = { text: 'whispered' };
    expect(await seenBy(bearer('app'))).toEqual(['succeeded', result, undefined, 200, 200]);
    expect(await seenBy(bearer('operator'))).toEqual(['succeeded', result, undefined, 200, 200]);
    expect(await seenBy(bearer('reader'))).toEqual(['succeeded', null, true, 403, 403]);
    expect((await fetch(`${road.url}/api/jobs/done/stream`, { headers: bearer('reader') })).status).toBe(403);
    const cookieOf = async (token: string) => ({ cookie: (await signIn(token)).pair });
    expect(await seenBy(await cookieOf('app'))).toEqual(['succeeded', result, undefined, 200, 200]);
    expect(await seenBy(await cookieOf('operator'))).toEqual(['succeeded', null, true, 404, 404]);
    await road.restart({ TOKENS: JSON.stringify(TOKENS), SHOW_PAYLOADS: '1' });
    expect(await seenBy(await cookieOf('operator'))).toEqual(['succeeded', result, undefined, 200, 200]);
    expect(await seenBy(await cookieOf('reader'))).toEqual(['succeeded', null, true, 403, 403]);
  });

  it('of a job that has ended are not shown to another tenant that cancels it in the form of RunPod', async () => {
    const body = JSON.stringify({ input: { prompt: 'secret' } });
    const worker = await (await new RawWorker(road.url, 'gpu').connect()).register('r', {
      config_id: 'pod',
    });
    const run = await fetch(`${road.url}/v2/pod/run`, { method: 'POST', headers: bearer('app'), body });
    const { id } = (await run.json()) as { id: string };
    worker.result(await worker.job(), { output: [{ text: 'whispered' }] });
    await worker.next('ack');
    const cancel = async (token: string) => {
      const init = { method: 'POST', headers: bearer(token) };
      return await (await fetch(`${road.url}/v2/pod/cancel/${id}`, init)).text();
    };
    expect(await cancel('app')).toContain('whispered');
    expect(await cancel('watching-app')).not.toContain('whispered');
  });

  it('come over the socket of programs to whoever submitted them alone', async () => {
    const heard = async (token: string) => {
      const socket = new WebSocket(`${road.url.replace('http', 'ws')}/api/jobs/socket`, {
        headers: bearer(token),
      });
      const frame = new Promise<{ type: string }>((resolve, reject) => {
        socket.once('message', (data) => resolve(JSON.parse(String(data))));
        socket.once('error', reject);
      });
      socket.once('open', () => socket.send(JSON.stringify({ type: 'listen', ids: ['done'] })));
      const { type } = await frame;
      socket.terminate();
      return type;
    };
    expect(await heard('app')).toBe('settled');
    expect(await heard('watching-app')).toBe('unknown');
  });

  it('of a job that succeeded are not made again', async () => {
    const init = { method: 'POST', headers: bearer('app') };
    expect((await fetch(`${road.url}/api/jobs/done/retry`, init)).status).toBe(409);
    expect((await fetch(`${road.url}/api/jobs/none/retry`, init)).status).toBe(404);
  });

  it('come as files, as they were submitted and answered', async () => {
    const response = await fetch(`${road.url}/api/jobs/done/payload`, { headers: bearer('app') });
    expect(await response.json()).toEqual({ messages: ['secret'] });
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="done-payload.json"');
  });
});
