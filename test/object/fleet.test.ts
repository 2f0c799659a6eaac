import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { WorkerView } from '../../src/gateway/fleet-views.ts';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';

/** The fleet object beside the queue's in a real process. */
const TOKEN = 'secret';
const SHA256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';
let road: MiniflareQueue;

beforeAll(async () => {
  road = await startMiniflareQueue({
    QUEUE_IDS: '*',
    TOKENS: JSON.stringify([{ name: 'all', sha256: SHA256, scopes: ['admin'] }]),
  });
});
afterEach(closeRawWorkers);
afterAll(() => road.stop());

let queueNumber = 0;
const headersOf = (queue: string) => ({ authorization: `Bearer ${TOKEN}`, 'x-queue-id': queue });
const newQueue = () => `fleet-${++queueNumber}`;

async function get(queue: string, path: string) {
  const response = await fetch(road.url + path, { headers: headersOf(queue) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}
const workers = async (queue: string) => (await get(queue, '/api/workers')).body.workers as WorkerView[];
const beat = (queue: string, body: object) =>
  fetch(`${road.url}/api/heartbeats`, {
    method: 'POST',
    headers: headersOf(queue),
    body: JSON.stringify(body),
  });
const instance = { id: 'i', gpu: 'H100', models: ['tiny'] };

describe('a worker that is gone', () => {
  it('is forgotten when an admin says so, and not while it is connected, and the audit has both', async () => {
    const queue = newQueue();
    await beat(queue, { instance_id: 'gone', status: 'fatal', error_message: 'no GPU' });
    await (await new RawWorker(road.url, TOKEN).connect(queue)).register('there');
    const forget = async (id: string) => {
      const response = await fetch(`${road.url}/api/workers/${id}`, {
        method: 'DELETE',
        headers: headersOf(queue),
      });
      const { error } = (await response.json()) as { error?: { code: string } };
      return [response.status, error?.code ?? null];
    };
    expect(await forget('there')).toEqual([409, 'worker_connected']);
    expect(await forget('gone')).toEqual([200, null]);
    expect(await forget('gone')).toEqual([404, 'worker_not_found']);
    expect((await workers(queue)).map(({ worker_id }) => worker_id)).toEqual(['there']);
    const { entries } = (await get(queue, '/api/audit?action=worker.forget')).body;
    expect(entries).toMatchObject([
      { target: 'gone', outcome: 'refused' },
      { target: 'gone', outcome: 'done', actor: 'all' },
      { target: 'there', outcome: 'refused' },
    ]);
  });
});

describe('the fleet', () => {
  it('shows a worker as soon as it is registered, with its heartbeats, and its last words when it is gone', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url, TOKEN).connect(queue)).register('w', { instance });
    expect(await workers(queue)).toMatchObject([
      { worker_id: 'w', state: 'ready', gpu: 'H100', models: ['tiny'], status: null },
    ]);
    await beat(queue, { instance_id: 'i', worker_id: 'w', status: 'fatal', error_message: 'no GPU' });
    expect(await workers(queue)).toMatchObject([
      { state: 'ready', status: 'fatal', error_message: 'no GPU' },
    ]);
    worker.vanish();
    await until(async () => (await workers(queue))[0]?.state === 'disconnected', 'it is seen to be gone');
    expect(await workers(queue)).toMatchObject([{ worker_id: 'w', gpu: 'H100', error_message: 'no GPU' }]);
  });

  it('lists the models that are served now', async () => {
    const queue = newQueue();
    const worker = await (await new RawWorker(road.url, TOKEN).connect(queue)).register('w', { instance });
    expect((await get(queue, '/v1/models')).body.data).toMatchObject([{ id: 'tiny', owned_by: 'cfg' }]);
    expect((await get(queue, '/v1/models/tiny')).status).toBe(200);
    worker.vanish();
    await until(async () => ((await get(queue, '/v1/models')).body.data as []).length === 0, 'it is gone');
    const { status, body } = await get(queue, '/v1/models/tiny');
    expect([status, JSON.stringify(body)]).toEqual([
      404,
      expect.stringContaining('has no worker at the moment'),
    ]);
  });

  it('leaves the database of the queue alone when workers only send heartbeats', async () => {
    const queue = newQueue();
    for (let n = 0; n < 20; n++)
      expect((await beat(queue, { instance_id: 'only', status: 'starting' })).status).toBe(200);
    expect(await workers(queue)).toMatchObject([
      { worker_id: 'only', state: 'disconnected', status: 'starting' },
    ]);
    expect(await road.sql(queue, 'SELECT * FROM sessions')).toEqual([]);
  });

  it('knows a model whose worker is gone: 503, a job is stored for its pool, and no 404 names it', async () => {
    const queue = newQueue();
    const post = async (path: string, body: object) => {
      const response = await fetch(road.url + path, {
        method: 'POST',
        headers: { ...headersOf(queue), ...REFUSED_FIRST },
        body: JSON.stringify(body),
      });
      return [response.status, await response.text()] as const;
    };
    const worker = await (await new RawWorker(road.url, TOKEN).connect(queue)).register('w', { instance });
    worker.send({ type: 'drain' });
    worker.vanish();
    await until(async () => (await workers(queue))[0]?.state === 'disconnected', 'it is seen to be gone');
    const ask = (model: string) => post('/v1/chat/completions', { model, messages: [] });
    expect((await ask('tiny'))[0]).toBe(503);
    expect((await ask('default'))[0]).toBe(503);
    expect(await ask('huge')).toMatchObject([404, expect.stringContaining('no worker serves any model now')]);
    const job = (model: string) => ({ job_type: 'chat_completion', payload: { model, messages: [] } });
    expect(await post('/api/jobs', job('tiny'))).toMatchObject([
      201,
      expect.stringContaining('"config_id":"cfg"'),
    ]);
    const [status, answers] = await post('/api/jobs', [
      job('huge'),
      job('tiny'),
      { ...job('x'), config_id: 'cfg' },
    ]);
    expect(status).toBe(200);
    type Answer = { job?: { config_id: string }; error?: { status: number } };
    const each = (JSON.parse(answers) as Answer[]).map((one) => one.error?.status ?? one.job?.config_id);
    expect(each).toEqual([404, 'cfg', 'cfg']);
  });

  it('keeps the log lines and samples that workers post, and gives them out in pages', async () => {
    const queue = newQueue();
    const send = async (path: string, body: unknown) => {
      const init = { method: 'POST', headers: headersOf(queue), body: JSON.stringify(body) };
      return (await fetch(road.url + path, init)).status;
    };
    const line = (n: number) => ({ timestamp: n, level: 'info', source: 'worker', message: `line ${n}` });
    const entries = Array.from({ length: 500 }, (_, n) => line(n));
    expect(await send('/api/logs', { instance_id: 'a/b', queue_id: queue, entries })).toBe(200);
    expect(await send('/api/logs', { instance_id: 'a/b', entries: [{ ...line(500), job_id: 'j' }] })).toBe(
      200,
    );
    const sample = { timestamp: 5, worker_uptime_s: 1.5, gpu_memory_used_mb: 100, vllm_running_requests: 2 };
    expect(await send('/api/metrics', { instance_id: 'a/b', config_id: 'cfg', snapshots: [sample] })).toBe(
      200,
    );
    const page = async (query: string) => (await get(queue, `/api/workers/a%2Fb/logs${query}`)).body;
    expect(await page('?limit=1')).toEqual({
      worker_id: 'a/b',
      logs: [{ number: 500, ...line(500), job_id: 'j' }],
      has_more: true,
    });
    const numbers = async (query: string) =>
      ((await page(query)).logs as { number: number }[]).map(({ number }) => number);
    expect(await numbers('?before=2')).toEqual([0, 1]);
    expect(await numbers('?after=0&limit=2')).toEqual([1, 2]);
    expect(await numbers('?after=500')).toEqual([]);
    expect(await numbers('')).toHaveLength(200);
    expect((await get(queue, '/api/workers/a%2Fb/metrics')).body).toEqual({
      worker_id: 'a/b',
      metrics: [{ number: 0, ...sample }],
      has_more: false,
    });
    for (const query of ['limit=0', 'limit=1001', 'before=-1', 'after=x']) {
      expect((await get(queue, `/api/workers/w/logs?${query}`)).status).toBe(400);
    }
  });

  it.each([
    ['/api/logs', {}],
    ['/api/logs', { instance_id: 'w', entries: 'none' }],
    ['/api/logs', { instance_id: 'w', entries: [{ timestamp: 1, level: 'loud', source: 'x', message: '' }] }],
    [
      '/api/logs',
      { instance_id: 'w', entries: [{ timestamp: 'now', level: 'info', source: 'x', message: '' }] },
    ],
    ['/api/metrics', { instance_id: 'w', snapshots: [{ timestamp: 1, gpu_temperature_c: 'hot' }] }],
    ['/api/metrics', { instance_id: '', snapshots: [] }],
    ['/api/metrics', []],
  ])('rejects what is no batch: %s %o', async (path, body) => {
    const init = { method: 'POST', headers: headersOf(newQueue()), body: JSON.stringify(body) };
    const response = await fetch(road.url + path, init);
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { code: 'invalid_batch' } },
    ]);
  });
});
