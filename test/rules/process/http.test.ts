import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { postJson, reasonOf } from '../../../src/process/http.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

type Answer = number | 'broken' | 'silent';

/** A receiver that gives one answer after the other, and when each post came. */
function receiver(...answers: Answer[]) {
  const clock = new VirtualClock();
  const started = clock.now();
  const posts: { atMs: number; init: RequestInit }[] = [];
  const fetch = async (_url: string, init: RequestInit = {}) => {
    const answer = answers[posts.length] ?? 200;
    posts.push({ atMs: clock.now() - started, init });
    if (answer === 'broken') throw new TypeError('fetch failed', { cause: new Error('ECONNRESET') });
    if (answer === 'silent') return new Promise<never>(() => {});
    return new Response(null, { status: answer });
  };
  return { clock, posts, web: { clock, fetch } };
}

const POST = { url: 'http://receiver', token: 'secret', body: { n: 1 } };

/** Posts, and lets enough time pass for every try. */
async function outcomeOf({ clock, web }: ReturnType<typeof receiver>): Promise<string> {
  const outcome = postJson(web, POST).then(
    () => 'taken',
    (error: Error) => error.message,
  );
  await clock.advance(60_000);
  expect(clock.armed).toBe(0);
  return await outcome;
}

test('a post is JSON with the token, once when it is taken', async () => {
  const there = receiver(204);
  expect(await outcomeOf(there)).toBe('taken');
  expect(there.posts).toHaveLength(1);
  expect(there.posts[0]!.init).toMatchObject({
    method: 'POST',
    body: '{"n":1}',
    headers: { 'content-type': 'application/json', authorization: 'Bearer secret' },
  });
});

test.each<[string, Answer[]]>([
  ['breaks the connection', ['broken']],
  ['is restarting', [503, 'broken']],
  ['asks to try again later', [429]],
])('a post to a receiver that %s is tried again', async (_case, answers) => {
  const there = receiver(...answers);
  expect(await outcomeOf(there)).toBe('taken');
  expect(there.posts.map(({ atMs }) => atMs)).toEqual([0, 250, 750].slice(0, answers.length + 1));
});

test.each<[string, Answer[], number, string]>([
  ['that is refused is not repeated', [403], 1, 'HTTP 403'],
  ['that fails three times is given up', [500, 502, 503], 3, 'HTTP 503'],
  ['that gets no answer has its ten seconds once', ['silent'], 1, 'no answer within 10 s'],
  ['has ten seconds for all its tries', [500, 'silent'], 2, 'no answer within 10 s'],
])('a post %s', async (_case, answers, tries, message) => {
  const there = receiver(...answers);
  expect(await outcomeOf(there)).toBe(message);
  expect(there.posts).toHaveLength(tries);
});

test('the reason says where TLS is spoken to a server that has none', async () => {
  const server = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const fault = await fetch(`https://127.0.0.1:${port}/`).catch((error: unknown) => error);
  expect(reasonOf(fault)).toMatch(/^what answers there does not speak TLS: name it with http:/);
  const [ofSocket] = await once(new WebSocket(`wss://127.0.0.1:${port}/`), 'error');
  expect(reasonOf(ofSocket)).toMatch(/^what answers there does not speak TLS: /);
});

test('the reason of a failure is the innermost, and an unknown certificate is advised on', () => {
  const own = Object.assign(
    new Error(
      'self-signed certificate; if the root CA is installed locally, try running Node.js with --use-system-ca',
    ),
    { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
  );
  const wrapped = new Error('Connection error.', { cause: new TypeError('fetch failed', { cause: own }) });
  expect(reasonOf(wrapped)).toBe(
    'self-signed certificate: set NODE_EXTRA_CA_CERTS to a file with the certificate of its authority, as PEM',
  );
  expect(reasonOf(new TypeError('fetch failed', { cause: new Error('ECONNRESET') }))).toBe('ECONNRESET');
  expect(reasonOf('text')).toBe('text');
});
