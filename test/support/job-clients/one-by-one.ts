import { expect, it } from 'vitest';
import { until } from '../poll.ts';
import { freePort } from '../ports.ts';
import type { Options, Program } from './program.ts';
import { hangUp, json, serverWith } from './scripted-server.ts';

const JOB = { job_type: 'chat_completion', payload: {} };

/** Requests that go wrong, as a server that knows its lines has them. */
export function oneByOne(program: () => Program): void {
  const client = (url: string, more: Partial<Options> = {}) => program().client({ url, ...more });

  it('names its token and its queue with each request, and quotes ids', async () => {
    const { url, asked } = await serverWith(json({ id: 'a' }));
    expect(await client(url, { token: 'secret', queue_id: 'team' }).get('a/b')).toEqual({ id: 'a' });
    expect(asked[0]).toMatchObject({
      url: '/api/jobs/a%2Fb',
      headers: { authorization: 'Bearer secret', 'x-queue-id': 'team' },
    });
  });

  it.each([
    ['has none', JOB],
    ['has one that is null', { ...JOB, id: null }],
  ])('submits a job again under the id that it gave it: it %s', async (_, job) => {
    const { url, asked } = await serverWith(hangUp, json({}, 503), json({ state: 'pending' }, 201));
    expect(await client(url).submit(job)).toEqual({ state: 'pending' });
    const ids = asked.map(({ body }) => JSON.parse(body).id as string);
    expect(ids).toHaveLength(3);
    expect(ids[0]).toMatch(/^[\w-]{36}$/);
    expect(new Set(ids).size).toBe(1);
  });

  it('does not repeat what the queue rejects, and throws its status, code and message', async () => {
    const error = { message: 'another payload has this id', code: 'conflict' };
    const { url, asked } = await serverWith(json({ error }, 409));
    const thrown = client(url).submit({ ...JOB, id: 'mine' });
    await expect(thrown).rejects.toEqual({ ...error, status: 409, cause: null });
    expect(asked).toHaveLength(1);
  });

  it('gives up after its retries, with what a proxy said', async () => {
    const { url, asked } = await serverWith((response) => response.writeHead(502).end('Bad gateway'));
    const thrown = client(url, { retries: 1 }).get('a');
    await expect(thrown).rejects.toMatchObject({ message: 'Bad gateway', status: 502, code: null });
    expect(asked).toHaveLength(2);
  });

  it('asks until a job is settled', async () => {
    const { url, asked } = await serverWith(json({ state: 'leased' }), json({ state: 'succeeded' }));
    expect(await client(url).wait('a').value).toEqual({ state: 'succeeded' });
    expect(asked.map((request) => request.url)).toEqual(Array(2).fill('/api/jobs/a?wait=60'));
  });

  it('gives the job as it stands when the time is over', async () => {
    const { url } = await serverWith(json({ state: 'pending' }));
    expect(await client(url).wait('a', 0).value).toEqual({ state: 'pending' });
  });

  it('says where no queue answers, and why', async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    await expect(client(url, { retries: 0 }).get('a')).rejects.toEqual({
      message: `No queue answers at ${url} (ECONNREFUSED).`,
      status: null,
      code: null,
      cause: expect.any(String),
    });
  });

  it('stops waiting when it is told to', async () => {
    const { url, asked } = await serverWith(() => {});
    const waiting = client(url).wait('a');
    await until(() => asked.length > 0, 'it to ask');
    waiting.stop();
    expect(await waiting.value).toBe('stopped');
  });
}
