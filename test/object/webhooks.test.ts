import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer as createTcpServer } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { JobView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { bodyOf } from '../support/request-body.ts';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';

/** Settlements posted to receivers, by a real queue to a real HTTP server. */

interface Post {
  path: string;
  headers: IncomingHttpHeaders;
  text: string;
}

const KEY = Buffer.alloc(32, 7);
const posts: Post[] = [];
/** How posts to a path are answered; 200 where it says nothing. Null: not at all. */
const answers = new Map<string, number | null>();
let connections = 0;
const receiver = createServer(async (request, response) => {
  const text = await bodyOf(request);
  if (text === null) return;
  const path = request.url ?? '';
  posts.push({ path, headers: request.headers, text });
  const status = answers.get(path);
  if (status === null) return;
  response.writeHead(status ?? 200, { location: '/redirected' }).end('ok');
});
const silent = createTcpServer(() => {
  connections += 1;
});
receiver.listen(0, '127.0.0.1');
silent.listen(0, '127.0.0.1');
const portOf = (server: typeof receiver | typeof silent) => (server.address() as AddressInfo).port;
await Promise.all([once(receiver, 'listening'), once(silent, 'listening')]);
const base = `http://127.0.0.1:${portOf(receiver)}`;

const road = startTestQueue({
  WEBHOOK_HOSTS: `private:127.0.0.1:${portOf(receiver)},127.0.0.1:${portOf(silent)},*.example.org`,
  WEBHOOK_SECRET: `whsec_${KEY.toString('base64')}`,
});
beforeAll(() => answers.clear());
afterAll(() => {
  receiver.closeAllConnections();
  receiver.close();
  silent.close();
});

const job = { job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };

async function submit(queue: TestQueue, more: object): Promise<Response> {
  return await queue.ask('', { method: 'POST', body: JSON.stringify({ ...job, ...more }) });
}

const postTo = (path: string, index = 0) =>
  until(() => posts.filter((post) => post.path === path)[index], `post ${index} to ${path}`);

it('posts a settled job once its receiver is there, signed as Standard Webhooks says', async () => {
  const queue = road.queue();
  expect((await submit(queue, { id: 'done', webhook: `${base}/done?x=1` })).status).toBe(201);
  const worker = await queue.worker();
  worker.result(await worker.job(), { status: 'success', n: 1 });
  const { headers, text } = await postTo('/done?x=1');
  expect(JSON.parse(text)).toMatchObject({
    type: 'job.succeeded',
    data: {
      id: 'done',
      state: 'succeeded',
      config_id: 'cfg',
      result: { status: 'success', n: 1 },
      error: null,
    },
  });
  expect(Object.keys(JSON.parse(text).data)).toEqual(expect.arrayContaining(['created_at', 'settled_at']));
  expect(text).not.toContain('webhook');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`;
  const signature = createHmac('sha256', KEY).update(signed).digest('base64');
  expect(headers).toMatchObject({
    'webhook-signature': `v1,${signature}`,
    'content-type': 'application/json',
  });
  expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(60);
});

it('posts failures and cancellations, and a long result by its address', async () => {
  const queue = road.queue();
  await submit(queue, { id: 'long', webhook: `${base}/long` });
  await submit(queue, { id: 'gone', webhook: `${base}/gone`, priority: -1 });
  await queue.ask('/gone', { method: 'DELETE' });
  const worker = await queue.worker();
  worker.result(await worker.job(), { text: 'x'.repeat(400_000) });
  expect(JSON.parse((await postTo('/gone')).text)).toMatchObject({
    type: 'job.cancelled',
    data: { error: { code: 'cancelled' }, result: null },
  });
  const { data } = JSON.parse((await postTo('/long')).text);
  expect(data).toMatchObject({ result: null, result_url: `/api/jobs/long?queue_id=${queue.id}` });
  const whole = (await (await fetch(`${road.url}${data.result_url}`)).json()) as JobView;
  expect((whole.result as { text: string }).text).toHaveLength(400_000);
});

it('tries again under the same id until the receiver takes it, also after a restart of the queue', async () => {
  const queue = road.queue();
  answers.set('/later', 500);
  await submit(queue, { id: 'later', webhook: `${base}/later` });
  await queue.ask('/later', { method: 'DELETE' });
  const first = await postTo('/later');
  await until(() => road.logged.some((line) => line.includes('"job_id":"later"')), 'the failure is logged');
  answers.delete('/later');
  await road.restart();
  // Objects are there once they are asked for; on a machine of its own the alarm wakes them.
  await queue.ask('/later');
  const second = await postTo('/later', 1);
  expect(second.headers['webhook-id']).toBe(first.headers['webhook-id']);
});

it('follows no redirect', async () => {
  const queue = road.queue();
  answers.set('/moved', 307);
  await submit(queue, { id: 'moved', webhook: `${base}/moved` });
  await queue.ask('/moved', { method: 'DELETE' });
  await postTo('/moved');
  await until(() => road.logged.some((line) => line.includes('answered 307')), 'the redirect is logged');
  expect(posts.filter(({ path }) => path === '/redirected')).toEqual([]);
});

it('lets no receiver that hangs hold up another', async () => {
  const queue = road.queue();
  answers.set('/hangs', null);
  for (let n = 0; n < 20; n += 1) {
    await submit(queue, { id: `hangs-${n}`, webhook: `${base}/hangs` });
    await queue.ask(`/hangs-${n}`, { method: 'DELETE' });
  }
  await postTo('/hangs', 7);
  // Another host, by another name.
  expect(posts.filter(({ path }) => path === '/hangs')).toHaveLength(8);
  answers.delete('/hangs');
});

it('reaches no private address that was not named as one', async () => {
  const queue = road.queue();
  const url = `https://127.0.0.1:${portOf(silent)}/`;
  expect((await submit(queue, { id: 'private', webhook: url })).status).toBe(201);
  await queue.ask('/private', { method: 'DELETE' });
  const line = await until(
    () => road.logged.find((line) => line.includes('"job_id":"private"')),
    'it failed',
  );
  expect(line).toContain('webhook not delivered');
  expect(connections).toBe(0);
});

it('takes no webhook to a host that is not allowed, over http, or with a password', async () => {
  const queue = road.queue();
  for (const [webhook, message] of [
    ['https://example.com/x', 'example.com is not among the hosts'],
    ['https://example.org/x', 'example.org is not among the hosts'],
    ['http://a.example.org/x', 'over https only'],
    ['https://me:secret@a.example.org/', 'user name'],
    ['ftp://a.example.org/', 'expected an https:// URL'],
    ['nonsense', 'expected an https:// URL'],
  ] as const) {
    const response = await submit(queue, { webhook });
    const body = (await response.json()) as { error: { message: string } };
    expect([response.status, body.error.message]).toEqual([400, expect.stringContaining(message)]);
  }
  expect((await submit(queue, { webhook: 'https://a.example.org/x' })).status).toBe(201);
});
