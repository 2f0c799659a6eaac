import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { FEATURE_ROUTES } from '../../../../src/features/index.ts';
import { createApp } from '../../../../src/gateway/app.ts';
import { createPost } from '../../../../src/host/node/http/post.ts';
import { createServer, type RunningServer } from '../../../../src/host/node/http/server.ts';
import { acceptUpgrade } from '../../../../src/host/node/http/upgrade.ts';
import { createNodeObjects, type NodeObjects } from '../../../../src/host/node/objects/objects.ts';
import { until } from '../../../support/poll.ts';
import { bytes, closeRawWorkers, EVENT_STREAM, RawWorker } from '../../../support/raw-worker.ts';

let dataDir: string;
let objects: NodeObjects;
let server: RunningServer;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'objects-'));
  await begin();
});
afterAll(async () => {
  closeRawWorkers();
  await end();
  await rm(dataDir, { recursive: true });
});

async function begin(): Promise<void> {
  const settings = { RECONNECT_GRACE_SECONDS: '2' };
  const fatal = (error: Error) => {
    throw error;
  };
  objects = createNodeObjects({ dataDir, settings, post: createPost(), log: () => {}, fatal });
  const env = { ...settings, objects: objects.stubs, acceptUpgrade };
  const app = createApp(FEATURE_ROUTES);
  server = await createServer({
    host: '127.0.0.1',
    port: 0,
    fetch: (request, waitUntil) =>
      app.fetch(request, env, { waitUntil, passThroughOnException: () => {}, props: {} }),
  });
}

async function end(): Promise<void> {
  const closed = server.close(0);
  await objects.close();
  await closed;
}

async function worker(): Promise<RawWorker> {
  return await (await new RawWorker(server.url).connect()).register('w');
}

function chat(): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}',
  });
}

it('streams a chat, which goes on where the queue’s object restarts in the middle', async () => {
  const played = await worker();
  const answered = chat();
  const job = await played.job();
  const stream = job.stream_id as number;
  played.answer({ type: 'head', stream, head: EVENT_STREAM });
  played.answer({ type: 'bytes', stream, offset: 0, data: bytes('data: first\n\n') });
  const body = (await answered).body!.getReader();
  const text = async () => new TextDecoder().decode((await body.read()).value);
  expect(await text()).toContain('data: first');
  // A call that no gateway makes.
  const broken = objects.stubs.queue('vllm-queue').cordon(null as never);
  await expect(broken).rejects.toMatchObject({ retryable: true });
  await until(() => played.closed === 1012, 'its control socket is closed');
  played.answer({ type: 'bytes', stream, offset: 13, data: bytes('data: second\n\n') });
  played.answer({ type: 'end', stream, size: 27 });
  let rest = '';
  for (let part = await text(); part !== ''; part = await text()) rest += part;
  expect(rest).toContain('data: second');
  const metrics = await objects.stubs.queue('vllm-queue').metrics();
  expect(metrics.relays).toMatchObject({ received_bytes: expect.any(Number), streams: 0 });
});

it('keeps a stored job over an end of the process', async () => {
  const submitted = await fetch(`${server.url}/api/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"job_type":"openai_chat","config_id":"cfg","payload":{"model":"tiny"}}',
  });
  const { id } = (await submitted.json()) as { id: string };
  expect(submitted.status).toBe(201);
  await end();
  await begin();
  expect(await (await fetch(`${server.url}/api/jobs/${id}`)).json()).toMatchObject({ id, state: 'pending' });
});
