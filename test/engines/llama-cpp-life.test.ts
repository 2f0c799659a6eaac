import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import {
  beginJob,
  job,
  settled,
  startQueue,
  submit,
  tearDown,
  untilReady,
  workers,
} from '../support/road.ts';
import { seenAtWork } from '../support/seen-at-work.ts';
import { type Llama, slotsInUse, startLlama, startWorkerFor, workerFor } from './llama.ts';

/** A worker outlives its engine, which somebody else starts, ends and starts again. */
let url: string;
beforeAll(async () => {
  url = (await startQueue()).url;
});
afterAll(tearDown);

const messages = [{ role: 'user' as const, content: 'Say hello.' }];
const client = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

async function isReady(id: string): Promise<boolean> {
  return (await workers(url)).some(({ worker_id, state }) => worker_id === id && state === 'ready');
}

it('an engine that is killed at work is waited for, and what it ran is run again when it is back', async () => {
  let llama: Llama = await startLlama();
  const worker = await workerFor(url, llama, 'w', { CASOLA_CONFIG_ID: 'killed' });
  const stream = await client().chat.completions.create({
    ...{ model: 'tiny', messages, max_tokens: 30_000 },
    stream: true,
  });
  const pieces = stream[Symbol.asyncIterator]();
  await pieces.next();
  const payload = { messages, max_tokens: 4000 };
  const stored = await seenAtWork(
    () => beginJob(url, { job_type: 'chat_completion', config_id: 'killed', payload }),
    async () => (await slotsInUse(llama.url)) === 2,
    'it runs both',
  );
  llama.process.kill('SIGKILL');
  await expect(
    (async () => {
      while (!(await pieces.next()).done);
    })(),
  ).rejects.toThrow(/engine/);
  await worker.waitForLine(/taking no jobs until the engine is healthy again/);
  await until(async () => !(await isReady('w')), 'its worker takes no jobs');
  llama = await startLlama([], llama.port);
  await untilReady(url, 'w');
  expect(await settled(url, stored.id)).toMatchObject({ state: 'succeeded', worker_id: 'w' });
  expect((await job(url, stored.id)).attempts).toBeLessThanOrEqual(3);
  await worker.stop();
  await llama.process.stop();
});

it('a worker that comes before its engine says what it waits for, and begins with it', async () => {
  const past = await startLlama();
  await past.process.stop();
  const worker = startWorkerFor(url, past.url, 'early', { CASOLA_CONFIG_ID: 'early' });
  await worker.waitForLine(/waiting for the engine at http:\/\/127.0.0.1:\d+: connection refused/);
  const llama = await startLlama([], past.port);
  await untilReady(url, 'early');
  await worker.stop();
  await llama.process.stop();
});

it('one for embeddings alone serves them, in floats and in base64', async () => {
  const llama = await startLlama(['--embeddings', '--pooling', 'mean', '--alias', 'embedder']);
  const worker = await workerFor(url, llama, 'embedder', { CASOLA_CONFIG_ID: 'embeddings' });
  for (const encoding_format of ['float', 'base64'] as const) {
    const { data, usage } = await client().embeddings.create({
      model: 'embedder',
      input: ['ba be', 'bi bo'],
      encoding_format,
    });
    expect(data.map(({ index }) => index)).toEqual([0, 1]);
    expect(usage.prompt_tokens).toBeGreaterThan(0);
  }
  const stored = await submit(url, {
    job_type: 'openai/embeddings',
    config_id: 'embeddings',
    payload: { input: 'ba be' },
  });
  expect(await settled(url, stored.id)).toMatchObject({
    state: 'succeeded',
    result: { embeddings: [{ index: 0, embedding: expect.any(Array) }] },
  });
  await worker.stop();
  await llama.process.stop();
});

it('one that tells gauges, which are not those of vLLM, is neither held back nor taken to hang by them', async () => {
  const llama = await startLlama(['--metrics']);
  const worker = await workerFor(url, llama, 'gauges', {
    CASOLA_CONFIG_ID: 'gauges',
    ENGINE_HANG_SECONDS: '1',
    CASOLA_BACKPRESSURE_CHECK_INTERVAL: '0.5',
  });
  const asked = Array.from({ length: 6 }, () =>
    client().chat.completions.create({ model: 'tiny', messages, max_tokens: 300 }),
  );
  const answers = await Promise.all(asked);
  expect(answers.map(({ usage }) => usage?.completion_tokens)).toEqual(Array(6).fill(300));
  expect(worker.output()).not.toContain('hang');
  await worker.stop();
  await llama.process.stop();
});

it('one that wants a key is reached with it', async () => {
  const llama = await startLlama(['--api-key', 'hush']);
  const worker = await workerFor(url, llama, 'locked', {
    CASOLA_CONFIG_ID: 'locked',
    ENGINE_API_KEY: 'hush',
  });
  const answer = await client().chat.completions.create({ model: 'tiny', messages, max_tokens: 3 });
  expect(answer.usage?.completion_tokens).toBe(3);
  await worker.stop();
  await llama.process.stop();
});
