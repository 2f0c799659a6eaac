import OpenAI from 'openai';
import { expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';

/** A pool of the fleet's file that has no worker, in a real queue. No launcher is there: the test plays the worker. */
const road = startTestQueue();

const CONFIG = { model: 'org/tiny', machines: [{ provider: 'here' }] };

const call = (queue: TestQueue, path: string, init: RequestInit = {}) =>
  fetch(`${road.url}${path}`, { ...init, headers: { 'x-queue-id': queue.id, ...init.headers } });

async function apply(queue: TestQueue, pool: object): Promise<void> {
  const spec = { providers: { here: { driver: 'process' } }, pools: { cfg: { ...CONFIG, ...pool } } };
  const answer = await call(queue, '/api/fleet/spec', { method: 'POST', body: JSON.stringify({ spec }) });
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
}

function chat(queue: TestQueue, headers: Record<string, string> = {}) {
  const body = JSON.stringify({
    model: 'org/tiny',
    stream: true,
    messages: [{ role: 'user', content: 'Hello' }],
  });
  return call(queue, '/v1/chat/completions', { method: 'POST', body, headers });
}

const models = async (queue: TestQueue) =>
  ((await (await call(queue, '/v1/models')).json()) as { data: { id: string; pool: object }[] }).data;

it('a client of OpenAI sees a slow first answer, and a stream what it waits for', async () => {
  const queue = road.queue();
  await apply(queue, {});
  expect(await models(queue)).toMatchObject([
    { id: 'org/tiny', pool: { id: 'cfg', state: 'scaled_to_zero' } },
  ]);
  const client = new OpenAI({
    baseURL: `${road.url}/v1`,
    apiKey: 'none',
    defaultHeaders: { 'x-queue-id': queue.id },
    maxRetries: 0,
  });
  const asked = client.chat.completions.create({
    model: 'org/tiny',
    messages: [{ role: 'user', content: 'Hi' }],
  });
  await until(async () => {
    const health = (await (await call(queue, '/health')).json()) as { pending: number };
    return health.pending === 1;
  }, 'the client waits');
  const stream = (await chat(queue)).body!.pipeThrough(new TextDecoderStream()).getReader();
  const said = (await stream.read()).value;
  expect(said).toMatch(/^: starting a worker.*; place \d of 2\n\n$/);

  const worker = await new RawWorker(road.url).connect(queue.id);
  const instance = { id: 'w', models: ['org/tiny'] };
  await worker.register('w', { capacity: 2, instance });
  const jobs = await Promise.all([worker.job(0), worker.job(1)]);
  for (const job of jobs) {
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }];
    worker.answerJson(job, JSON.stringify({ id: 'c', model: 'm', choices }));
  }
  expect((await asked).choices[0]?.message.content).toBe('Hello.');
  await stream.cancel();
  expect(await models(queue)).toMatchObject([{ pool: { state: 'ready' } }]);
});

it('who waits is answered as soon as no worker will be started', async () => {
  const queue = road.queue();
  await apply(queue, {});
  const response = await chat(queue, { 'x-queue-wait': '60' });
  expect(response.status).toBe(200);
  await apply(queue, { max: 0 });
  const text = await response.text();
  expect(text).toContain('the fleet allows none of it');
  expect(text).toContain('"status":503');
});

it('what only batches start is refused at once with the reason, and takes jobs', async () => {
  const queue = road.queue();
  await apply(queue, { batch_only: true });
  const response = await chat(queue, REFUSED_FIRST);
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '60']);
  expect(await response.json()).toMatchObject({ error: { message: expect.stringContaining('batches') } });
  const job = { job_type: 'chat_completion', payload: { model: 'org/tiny', messages: [] } };
  const stored = await queue.ask('', { method: 'POST', body: JSON.stringify(job) });
  expect([stored.status, await stored.json()]).toMatchObject([201, { config_id: 'cfg', state: 'pending' }]);
  expect(await models(queue)).toMatchObject([{ pool: { state: 'stopped', detail: expect.any(String) } }]);
});
