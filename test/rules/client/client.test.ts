import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import { type ClientOptions, JobClient, QueueError } from '../../../src/client/index.ts';
import { freePort } from '../../support/ports.ts';

interface Asked {
  method: string | undefined;
  url: string | undefined;
  headers: IncomingMessage['headers'];
  body: string;
}

type Answer = (response: ServerResponse, asked: Asked) => void;

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

/** A server that gives these answers in turn, the last one for good. */
async function serverWith(answers: Answer[], options: Partial<ClientOptions> = {}) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request;
    const one = { method, url, headers, body: await text(request) };
    asked.push(one);
    (answers.length > 1 ? answers.shift()! : answers[0]!)(response, one);
  });
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return { asked, client: new JobClient({ url: `http://127.0.0.1:${port}/`, ...options }) };
}

const json =
  (body: unknown, status = 200): Answer =>
  (response) =>
    response.writeHead(status).end(JSON.stringify(body));
const hangUp: Answer = (response) => response.destroy();
const job = { job_type: 'chat_completion', payload: {} } as const;

describe('the client for jobs', () => {
  it('names its token and its queue with each request', async () => {
    const { client, asked } = await serverWith([json({ id: 'a' })], { token: 'secret', queueId: 'team' });
    expect(await client.get('a/b')).toEqual({ id: 'a' });
    expect(asked[0]).toMatchObject({
      url: '/api/jobs/a%2Fb',
      headers: { authorization: 'Bearer secret', 'x-queue-id': 'team' },
    });
  });

  it.each([
    ['has none', job],
    ['has one that is undefined', { ...job, id: undefined }],
  ])('submits a job again under the id that it gave it: it %s', async (_, job) => {
    const { client, asked } = await serverWith([hangUp, json({}, 503), json({ state: 'pending' }, 201)]);
    expect(await client.submit(job as Parameters<typeof client.submit>[0])).toEqual({ state: 'pending' });
    const ids = asked.map(({ body }) => JSON.parse(body).id as string);
    expect(ids).toHaveLength(3);
    expect(ids[0]).toMatch(/^[\w-]{36}$/);
    expect(new Set(ids).size).toBe(1);
  });

  it('does not repeat what the queue rejects, and throws its status, code and message', async () => {
    const error = { message: 'another payload has this id', code: 'conflict' };
    const { client, asked } = await serverWith([json({ error }, 409)]);
    const thrown = await client.submit({ ...job, id: 'mine' }).catch((reason) => reason);
    expect(thrown).toBeInstanceOf(QueueError);
    expect(thrown).toMatchObject({ status: 409, ...error });
    expect(asked).toHaveLength(1);
  });

  it('asks until a job is settled', async () => {
    const { client, asked } = await serverWith([json({ state: 'leased' }), json({ state: 'succeeded' })]);
    expect(await client.wait('a')).toEqual({ state: 'succeeded' });
    expect(asked.map(({ url }) => url)).toEqual(Array(2).fill('/api/jobs/a?wait=60'));
  });

  it('gives the job as it stands when the time is over', async () => {
    const { client } = await serverWith([json({ state: 'pending' })]);
    expect(await client.wait('a', { seconds: 0 })).toEqual({ state: 'pending' });
  });

  it('says where no queue answers, and why', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const client = new JobClient({ url, retries: 0 });
    const thrown = await client.get('a').catch((reason) => reason);
    expect(thrown).toMatchObject({ name: 'QueueError', status: null, code: null });
    expect(thrown.message).toBe(`No queue answers at ${url} (ECONNREFUSED).`);
  });

  it('throws what its signal was aborted with', async () => {
    const { client } = await serverWith([() => {}]);
    const abort = new AbortController();
    const waiting = client.wait('a', { signal: abort.signal });
    abort.abort(new Error('no longer wanted'));
    await expect(waiting).rejects.toThrow('no longer wanted');
  });
});
