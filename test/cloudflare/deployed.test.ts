import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import {
  chatJob,
  cli,
  engineRunning,
  killQueue,
  type QueueProcess,
  setPace,
  startQueue,
  startWorker,
  stateFolder,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** As docs/deploying.md deploys it: tokens and the key of addresses as secrets, a bucket for what is large. */

const MIB = 1024 * 1024;
const stateDir = stateFolder();
/** No worker is taken for lost here, also where it stands still for a while. */
const env = { QUEUE_RECONNECT_GRACE_SECONDS: '30' };
const tokens: Record<string, string> = {};
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  for (const scope of ['worker', 'submit', 'read']) {
    const made = cli(['token', 'create', '--scope', scope, '--state', stateDir]);
    expect((await made.exited).code).toBe(0);
    tokens[scope] = /\S{20,}/.exec(made.output())![0];
  }
  queue = await startQueue({ stateDir, env });
  await startReady('fast', 'tiny', '');
  worker = await startReady('slow', 'slow', '--inter-token-latency-ms 5');
});
afterAll(tearDown);

async function startReady(id: string, model: string, args: string): Promise<WorkerProcess> {
  const worker = await startWorker(queue.url, id, {
    engineArgs: `--max-model-len 4m ${args}`,
    env: { CASOLA_API_TOKEN: tokens.worker, CASOLA_CONFIG_ID: id, VLLM_MODEL: model },
  });
  await worker.process.waitForLine(/taking jobs/);
  return worker;
}

async function ask(path: string, scope: string, body?: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${queue.url}${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { ...(scope ? { authorization: `Bearer ${tokens[scope]}` } : {}), ...headers },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json');
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : null };
}

const settled = (id: string) =>
  until(
    async () => {
      const { json } = await ask(`/api/jobs/${id}?wait=20`, 'submit');
      return json.settled_at ? json : null;
    },
    `job ${id} is settled`,
    { timeoutMs: 120_000 },
  );

/** Files of the bucket in its local form. */
const inBucket = () => {
  const folder = join(stateDir, 'objects/v3/r2/worker-vllm-files/blobs');
  try {
    return readdirSync(folder).length;
  } catch {
    return 0;
  }
};

const large = (tokens: number, config_id: string) => ({
  ...chatJob(tokens, { config_id }),
  payload: {
    messages: [{ role: 'user', content: `Begin. ${'ä 🙂 '.repeat((3 * MIB) / 8)} End.` }],
    max_tokens: tokens,
    ignore_eos: true,
  },
});

it('asks for tokens, each for what it is for', async () => {
  expect((await ask('/v1/models', '')).status).toBe(401);
  expect((await ask('/v1/models', 'submit')).json.data).toHaveLength(2);
  expect((await ask('/api/jobs', 'worker', chatJob(1))).status).toBe(403);
});

it('answers a chat, streamed and not', async () => {
  const client = new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: tokens.submit!, maxRetries: 0 });
  const request = { model: 'tiny', messages: [{ role: 'user' as const, content: 'Hi.' }], max_tokens: 20 };
  const whole = await client.chat.completions.create(request);
  let streamed = '';
  for await (const { choices } of await client.chat.completions.create({ ...request, stream: true })) {
    streamed += choices[0]?.delta.content ?? '';
  }
  expect(streamed).toBe(whole.choices[0]?.message.content);
});

it('shows its page to somebody who signs in', async () => {
  const page = await ask('/', '', undefined, { accept: 'text/html' });
  expect(page.text).toContain('<title>worker-vllm</title>');
  const signIn = await ask('/api/session', '', { token: tokens.read }, { origin: queue.url });
  expect(signIn.json, signIn.text).toMatchObject({ scopes: ['read'] });
  const cookie = signIn.headers.get('set-cookie')!.split(';', 1)[0]!;
  expect((await ask('/api/fleet', '', undefined, { cookie })).json.workers).toHaveLength(2);
});

it('tells its metrics', async () => {
  expect((await ask('/metrics', 'read')).text).toMatch(/^worker_vllm_\w+(?:\{.*\})? \d/m);
});

it('keeps what is large in the bucket', async () => {
  const tokens = 150_000;
  const { json } = await ask('/api/jobs', 'submit', large(tokens, 'fast'));
  const job = await settled(json.id);
  expect(job).toMatchObject({ state: 'succeeded', attempts: 1 });
  expect(job.result.completion.usage.completion_tokens).toBe(tokens);
  // Payload and result.
  expect(inBucket()).toBe(2);
});

it('loses nothing of what runs, waits and lies in the bucket when all of it is killed', async () => {
  const config_id = 'slow';
  // None is over before the queue is there again.
  await setPace(worker.engineUrl, 2000);
  const small = chatJob(1500, { config_id });
  const jobs = [large(1500, config_id), small, small];
  const ids = await Promise.all(jobs.map(async (job) => (await ask('/api/jobs', 'submit', job)).json.id));
  await until(async () => (await engineRunning(worker.engineUrl)) === 3, 'all run');
  await killQueue(queue);
  queue = await startQueue({ stateDir, port: queue.port, env });
  await setPace(worker.engineUrl, 5);
  for (const id of ids) {
    const untouched = { state: 'succeeded', attempts: 1, attempt_errors: [], worker_id: 'slow' };
    expect(await settled(id)).toMatchObject(untouched);
  }
});

it('keeps its worker while its objects are evicted for want of work', async () => {
  const epochOf = async () => (await ask('/api/fleet', 'read')).json.epoch;
  const before = await epochOf();
  const redials = () => worker.process.output().match(/taking jobs/g)!.length;
  const dialled = redials();
  // The runtime evicts an object that nothing happened to for ten seconds.
  await until(
    async () => {
      await new Promise((later) => setTimeout(later, 15_000));
      return (await epochOf()) !== before;
    },
    'the fleet object was evicted',
    { timeoutMs: 120_000 },
  );
  const { json } = await ask('/api/jobs', 'submit', chatJob(5, { config_id: 'slow' }));
  expect(await settled(json.id)).toMatchObject({ state: 'succeeded', attempts: 1 });
  expect(redials()).toBe(dialled);
});
