import OpenAI, { toFile } from 'openai';
import { expect, it } from 'vitest';
import type { Waiting } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue, type TestQueue } from '../support/test-queue.ts';

/** What jobs and batches wait for, as the API says it, in a real queue. No launcher is there. */
const road = startTestQueue({ MODEL_ALIASES: 'small=tiny' });

const ENDPOINT = '/v1/chat/completions';

const call = (queue: TestQueue, path: string, init: RequestInit = {}) =>
  fetch(`${road.url}${path}`, { ...init, headers: { 'x-queue-id': queue.id, ...init.headers } });

async function ask<T>(queue: TestQueue, path: string, init: RequestInit = {}): Promise<T> {
  return (await (await call(queue, path, init)).json()) as T;
}

async function applyFleet(queue: TestQueue): Promise<void> {
  const pools = { cfg: { model: 'tiny', slots: 2, machines: [{ provider: 'here' }] } };
  const spec = { providers: { here: { driver: 'process' } }, pools };
  const answer = await call(queue, '/api/fleet/spec', { method: 'POST', body: JSON.stringify({ spec }) });
  expect(answer.status).toBe(200);
}

const waitingOf = (queue: TestQueue, path: string, code: Waiting['code']) =>
  until(async () => {
    const { waiting } = await ask<{ waiting?: Waiting }>(queue, path);
    return waiting?.code === code && waiting;
  }, `${path} to wait for ${code}`);

it('a stored job says what it waits for until it runs', async () => {
  const queue = road.queue();
  const worker = await new RawWorker(road.url).connect(queue.id);
  await worker.register('w', { capacity: 1, instance: { id: 'w', models: ['tiny'] } });
  const job = { job_type: 'chat_completion', payload: { model: 'tiny', messages: [] } };
  const submit = () => ask<{ id: string }>(queue, '/api/jobs', { method: 'POST', body: JSON.stringify(job) });
  const [first, second] = [await submit(), await submit()];
  const given = await worker.job(0);
  expect(given.job_id).toBe(first.id);
  expect(await ask(queue, `/api/jobs/${first.id}`)).not.toHaveProperty('waiting');
  expect(await waitingOf(queue, `/api/jobs/${second.id}`, 'busy')).toMatchObject({
    for: expect.stringMatching(/^its only slot is busy: /),
    until: null,
    advice: expect.stringContaining('CASOLA_CONFIG_ID'),
  });
  await until(async () => {
    const { pools } = await ask<{ pools: { why_waiting: Waiting | null }[] }>(queue, '/api/fleet');
    return pools[0]?.why_waiting?.code === 'busy';
  }, 'the pool to say the same');
});

it('a batch of a pool without a worker says until when, its alias counts for the pool, and a launch by hand is said', async () => {
  const queue = road.queue();
  await applyFleet(queue);
  const client = new OpenAI({
    baseURL: `${road.url}/v1`,
    apiKey: 'none',
    defaultHeaders: { 'x-queue-id': queue.id },
    maxRetries: 0,
  });
  const line = (custom_id: string) =>
    JSON.stringify({ custom_id, url: ENDPOINT, body: { model: 'small', messages: [] } });
  const file = await toFile(new TextEncoder().encode([line('a'), line('b')].join('\n')), 'in.jsonl');
  const { id: input_file_id } = await client.files.create({ file, purpose: 'batch' });
  const { id } = await client.batches.create({
    input_file_id,
    endpoint: ENDPOINT,
    completion_window: '24h',
  });
  const waiting = await waitingOf(queue, `/v1/batches/${id}`, 'batch_start');
  expect(waiting).toEqual({
    code: 'batch_start',
    for: expect.stringMatching(/^2 lines of batches are too little work to start a worker for: /),
    until: expect.stringMatching(/^\d{4}-/),
    advice: '"worker-vllm fleet launch cfg" starts a worker now.',
  });
  expect((await client.batches.list()).data).toMatchObject([{ waiting: { code: 'batch_start' } }]);
  const line1 = await waitingOf(queue, `/api/jobs/${id}.1`, 'batch_start');
  expect(line1).toEqual(waiting);
  const fleet = await until(async () => {
    const view = await ask<{ pools: { why_waiting: Waiting | null }[] }>(queue, '/api/fleet');
    return view.pools[0]?.why_waiting ? view : null;
  }, 'the pool to say the same');
  expect(fleet).toMatchObject({
    summary: { verdict: 'serving' },
    pools: [{ why_waiting: waiting, scaling: { wanted: 0 } }],
    launches: [],
  });
  await call(queue, '/api/fleet/pools/cfg/launch', { method: 'POST' });
  await until(async () => {
    const { pools } = await ask<{ pools: { scaling: { decision: { text: string } } }[] }>(
      queue,
      '/api/fleet',
    );
    return pools[0]?.scaling.decision.text.includes('as an operator asked');
  }, 'the decision to say who asked for a worker');
  await client.batches.cancel(id);
  const ended = await until(async () => {
    const batch = await client.batches.retrieve(id);
    return batch.status === 'cancelled' ? batch : null;
  }, 'the batch to be cancelled');
  const lines = (await (await client.files.content(ended.error_file_id!)).text()).trim().split('\n');
  const errors = lines.map((text) => (JSON.parse(text) as { error: object }).error);
  const message = expect.stringMatching(
    /^The batch was cancelled before this line was run\. It waited because it has no worker, and no launcher is /,
  );
  expect(errors).toEqual(Array(2).fill({ code: 'batch_cancelled', message }));
});
