import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** What HTTP itself, and clients other than OpenAI's, expect of the heads of requests and answers. */
const road = startTestQueue({ TOKENS: JSON.stringify([tokenEntry('key', ['submit', 'read'])]) });

const ask = (path: string, headers: Record<string, string>, init: RequestInit = {}) =>
  fetch(`${road.url}${path}`, { ...init, headers });

/** Sends the head of a request and nothing more. @returns all that is answered until the connection ends */
async function answerToHead(...head: string[]): Promise<string> {
  const { hostname, port, host } = new URL(road.url);
  const socket = connect(Number(port), hostname).setEncoding('latin1');
  let heard = '';
  socket.on('data', (text) => {
    heard += text;
  });
  await once(socket, 'connect');
  socket.write(`${[...head, `Host: ${host}`, 'Authorization: Bearer key'].join('\r\n')}\r\n\r\n`);
  await until(() => /^HTTP\/1\.1 [2-5]/m.test(heard), 'a status is answered');
  socket.destroy();
  return heard;
}

describe('a token', () => {
  it.each(['/v1/models', '/v1/messages', '/v2/e/run', '/api/jobs', '/api/fleet', '/ws', '/answers'])(
    'that %s lacks is asked for by WWW-Authenticate',
    async (path) => {
      const method = /^\/(v1\/mess|v2)/.test(path) ? 'POST' : 'GET';
      for (const headers of [{}, { authorization: 'Bearer other' }]) {
        const { status, headers: answered } = await ask(path, headers as Record<string, string>, { method });
        expect(status).toBe(401);
        expect(answered.get('www-authenticate')).toMatch(/^Bearer realm="/);
      }
    },
  );

  it('is taken from the headers of Anthropic’s and Azure’s clients', async () => {
    for (const name of ['x-api-key', 'api-key']) {
      expect((await ask('/v1/models', { [name]: 'key' })).status).toBe(200);
      expect((await ask('/v1/models', { [name]: 'other' })).status).toBe(401);
    }
  });
});

describe('a compressed body', () => {
  it.each(['/v1/chat/completions', '/v1/messages', '/v1/files', '/api/jobs', '/v2/e/run', '/api/heartbeats'])(
    'is refused by %s with 415, which says what is taken',
    async (path) => {
      const headers = { authorization: 'Bearer key', 'content-encoding': 'gzip' };
      const answer = await ask(path, headers, { method: 'POST', body: 'compressed' });
      expect([answer.status, answer.headers.get('accept-encoding')]).toEqual([415, 'identity']);
      expect(await answer.text()).toContain('Content-Encoding: gzip');
    },
  );
});

describe('a body that is announced as too long', () => {
  it.each([
    ['300 MB, which would not be read', 'Content-Length: 300000000'],
    ['30 MB by a client that waits to be asked for it', 'Content-Length: 30000000'],
  ])('is answered 413 without being asked for: %s', async (_what, length) => {
    const answered = await answerToHead('POST /v1/chat/completions HTTP/1.1', length, 'Expect: 100-continue');
    expect(answered).toMatch(/^HTTP\/1\.1 413 /);
  });
});
