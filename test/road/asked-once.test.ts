import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OddEngine, plain, roadTo } from '../support/odd-engine.ts';
import { until } from '../support/poll.ts';
import { readyWorker, settled, startQueue, submit, tearDown, type WorkerProcess } from '../support/road.ts';

/** How often an engine is asked for what it refuses, by a worker that has had no stream yet. */
const CHAT = '/v1/chat/completions';
const REFUSED = { model: 'tiny', max_tokens: -3, messages: [{ role: 'user', content: 'hi' }] };

const askStream = async (url: string, path: string, body: object) => {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'x-queue-wait': '5' },
    body: JSON.stringify({ ...body, stream: true }),
  });
  return { status: response.status, text: await response.text() };
};

afterAll(tearDown);

describe('an engine that tells that it takes what the worker adds', () => {
  let url: string;
  let worker: WorkerProcess;

  beforeAll(async () => {
    url = (await startQueue()).url;
    worker = await readyWorker(url, 'w');
  });

  const refusals = (path: string) =>
    worker.process
      .output()
      .split('\n')
      .filter((line) => line.includes(`POST ${path} HTTP/1.1\\" 400`)).length;

  it('is asked once for a stream, and twice for a stored answer that would move', async () => {
    expect((await askStream(url, CHAT, REFUSED)).status).toBe(400);
    expect(
      (await askStream(url, '/v1/completions', { model: 'tiny', prompt: 'a', max_tokens: -3 })).status,
    ).toBe(400);
    const body = JSON.stringify({ model: 'tiny', prompt: 'a', max_tokens: -3 });
    const payload = { path: '/v1/completions', body, content_type: 'application/json' };
    const { id } = await submit(url, { job_type: 'engine_request', config_id: 'cfg', payload });
    expect((await settled(url, id)).state).toBe('failed');
    await until(() => refusals('/v1/completions') >= 3, 'the engine has logged them');
    expect([refusals(CHAT), refusals('/v1/completions')]).toEqual([1, 3]);
  });
});

describe('an engine that tells nothing', () => {
  const engine = new OddEngine();
  let url: string;

  beforeAll(async () => {
    url = await roadTo(engine);
  });
  afterAll(() => engine.close());

  it('is asked twice at most, and its caller learns the mistake', async () => {
    engine.answer = (socket) =>
      void socket.end(plain('{"error":{"message":"no"}}', 'HTTP/1.1 400 Bad Request'));
    expect(await askStream(url, CHAT, REFUSED)).toEqual({ status: 400, text: '{"error":{"message":"no"}}' });
    expect(engine.asked).toHaveLength(2);
  });
});
