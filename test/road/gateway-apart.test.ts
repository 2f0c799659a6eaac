import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import WebSocket from 'ws';
import { until } from '../support/poll.ts';
import { freePort } from '../support/ports.ts';
import type { Child } from '../support/processes.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';
import {
  chatJob,
  cli,
  job,
  killQueue,
  type QueueProcess,
  readyWorker,
  setPace,
  settled,
  startQueue,
  stateFolder,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** A gateway in a process of its own: its worker, its callers and its queue's restarts. */
let queue: QueueProcess;
let gateway: Child;
let url: string;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startQueue();
  ({ gateway, url } = await startGateway(queue.url));
  worker = await readyWorker(url, 'w', { engineArgs: '--inter-token-latency-ms 5' });
});
afterAll(async () => {
  closeRawWorkers();
  await tearDown();
});

async function startGateway(
  queueUrl: string,
  env: NodeJS.ProcessEnv = {},
): Promise<{ gateway: Child; url: string }> {
  const port = await freePort();
  const gateway = cli(['gateway', '--queue', queueUrl, '--port', String(port)], env);
  await gateway.waitForLine(/listening at/);
  return { gateway, url: `http://127.0.0.1:${port}` };
}

function chat(more: Record<string, unknown>, headers: Record<string, string> = {}): Promise<Response> {
  const messages = [{ role: 'user', content: 'Tell me something.' }];
  const body = JSON.stringify({ model: 'tiny', messages, ignore_eos: true, ...more });
  return fetch(`${url}/v1/chat/completions`, { method: 'POST', body, headers });
}

/** The contents of the events of a chat's stream. */
function contentsOf(text: string): string[] {
  return [...text.matchAll(/^data: (\{.*\})$/gm)].flatMap(
    ([, event]) => JSON.parse(event!).choices[0]?.delta.content || [],
  );
}

it('answers chats, whole and as streams', async () => {
  const whole = (await (await chat({ max_tokens: 5 })).json()) as { usage: unknown };
  expect(whole.usage).toMatchObject({ completion_tokens: 5 });
  const stream = await (await chat({ max_tokens: 7, stream: true })).text();
  expect(contentsOf(stream)).toHaveLength(7);
  expect(stream.endsWith('data: [DONE]\n\n')).toBe(true);
});

it('runs stored jobs', async () => {
  const { id } = await submit(url, chatJob(4));
  expect(await settled(url, id)).toMatchObject({ state: 'succeeded', worker_id: 'w' });
  // The queue itself has the same job.
  expect(await job(queue.url, id)).toMatchObject({ state: 'succeeded' });
});

it('has models, metrics, the page and the state of the queue', async () => {
  const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
  expect(models.data.map(({ id }) => id)).toEqual(['tiny']);
  expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: 'ok', workers: 1 });
  const page = await fetch(url, { headers: { accept: 'text/html' } });
  expect(await page.text()).toContain('<title>');
  await until(async () => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return Number(/^worker_vllm_relay_bytes_total\S* (\S+)$/m.exec(metrics)?.[1]) > 0;
  }, 'the bytes that the gateway passed on are counted');
});

it('keeps files and runs batches of them', async () => {
  const line = (custom_id: string) => ({
    custom_id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'tiny', messages: [{ role: 'user', content: custom_id }], max_tokens: 3 },
  });
  const lines = ['a', 'b', 'c'].map((id) => JSON.stringify(line(id))).join('\n');
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new File([lines], 'in.jsonl'));
  const file = (await (await fetch(`${url}/v1/files`, { method: 'POST', body: form })).json()) as {
    id: string;
  };
  expect(await (await fetch(`${url}/v1/files/${file.id}/content`)).text()).toBe(lines);
  const given = {
    input_file_id: file.id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  };
  const batches = `${url}/v1/batches`;
  const begun = await fetch(batches, { method: 'POST', body: JSON.stringify(given) });
  const { id } = (await begun.json()) as { id: string };
  const ended = await until(async () => {
    const batch = (await (await fetch(`${batches}/${id}`)).json()) as Record<string, string>;
    return batch.status === 'completed' ? batch : null;
  }, 'the batch is completed');
  const output = await (await fetch(`${url}/v1/files/${ended.output_file_id}/content`)).text();
  expect(output.trim().split('\n')).toHaveLength(3);
});

it('stores responses and answers from them', async () => {
  const post = (body: object) =>
    fetch(`${url}/v1/responses`, { method: 'POST', body: JSON.stringify({ model: 'tiny', ...body }) });
  const first = (await (await post({ input: 'one' })).json()) as { id: string };
  const next = await post({ input: 'two', previous_response_id: first.id });
  expect(next.status).toBe(200);
  expect((await fetch(`${url}/v1/responses/${first.id}`)).status).toBe(200);
});

it('shows the fleet live', async () => {
  const viewer = new WebSocket(`${url.replace('http', 'ws')}/api/fleet/live`);
  const frames: string[] = [];
  viewer.on('message', (data) => frames.push(String(data)));
  await new Promise((done) => viewer.once('open', done));
  viewer.send('{"type":"watch"}');
  await until(() => frames.some((frame) => frame.includes('"w"')), 'the worker is shown');
  viewer.close();
});

it('goes on with answers while its queue is killed, and has new requests wait for it', async () => {
  // It does not end before the queue is killed, however long that takes.
  await setPace(worker.engineUrl, 2000);
  const running = chat({ max_tokens: 150, stream: true }).then((answer) => answer.text());
  await until(async () => {
    const { running } = (await (await fetch(`${url}/health`)).json()) as { running: number };
    return running === 1;
  }, 'the answer is on its way');
  // The queue answers nothing any more, so this health check is on its way when the link breaks.
  queue.process.kill('SIGSTOP');
  const health = fetch(`${url}/health`);
  expect((await fetch(`${url}/nowhere`)).status).toBe(404);
  await killQueue(queue);
  expect(await (await health).json()).toEqual({ status: 'ok', queue_away_since: expect.any(String) });
  await setPace(worker.engineUrl, 20);
  const waiting = await chat({ max_tokens: 3, stream: true });
  const reader = waiting.body!.getReader();
  const comment = new TextDecoder().decode((await reader.read()).value);
  expect(comment).toBe(': waiting for the queue, which cannot be reached\n\n');
  const stored = submit(url, chatJob(2));
  queue = await startQueue(queue);
  expect(await settled(url, (await stored).id)).toMatchObject({ state: 'succeeded' });
  let text = '';
  for (let part = await reader.read(); !part.done; part = await reader.read())
    text += new TextDecoder().decode(part.value);
  expect(contentsOf(text)).toHaveLength(3);
  const whole = await running;
  expect(contentsOf(whole)).toHaveLength(150);
  expect(whole.endsWith('data: [DONE]\n\n')).toBe(true);
  await gateway.waitForLine(/linked to the queue/);
  await setPace(worker.engineUrl, 1);
});

// Each of these has a queue of its own.
it.concurrent('waits for a queue that starts after it, with those who ask meanwhile, and is not healthy until then', async () => {
  const [queuePort, port] = [await freePort(), await freePort()];
  const early = cli(['gateway', '--queue', `http://127.0.0.1:${queuePort}`, '--port', String(port)]);
  await early.waitForLine(/cannot be reached/);
  const health = await fetch(`http://127.0.0.1:${port}/health`);
  expect(health.status).toBe(503);
  expect(await health.json()).toMatchObject({ error: { code: 'queue_away' } });
  const waiting = fetch(`http://127.0.0.1:${port}/v1/models`);
  await startQueue({ port: queuePort });
  expect((await waiting).status).toBe(200);
  await early.waitForLine(/listening at/);
  expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
  early.kill('SIGTERM');
  expect(await early.exited).toMatchObject({ code: 0 });
});

it.concurrent('ends with the reason where its queue refuses its token, or is none', async () => {
  const { url: closed } = await startQueue({ env: { QUEUE_TOKENS: 'read:a-reader' } });
  const tokenless = cli(['gateway', '--queue', closed, '--port', '0']);
  expect(await tokenless.exited).toMatchObject({ code: 6 });
  expect(tokenless.output()).toContain('token create --scope gateway');
  const reader = cli(['gateway', '--queue', closed, '--port', '0'], { GATEWAY_TOKEN: 'a-reader' });
  expect(await reader.exited).toMatchObject({ code: 6 });
  expect(reader.output()).toContain('this route asks for gateway');
  const chained = cli(['gateway', '--queue', url, '--port', '0']);
  expect(await chained.exited).toMatchObject({ code: 2 });
  expect(chained.output()).toContain('takes no gateway processes');
  const nowhere = cli(['gateway', '--port', '0']);
  expect(await nowhere.exited).toMatchObject({ code: 2 });
  expect(nowhere.output()).toContain('GATEWAY_QUEUE is not set: address of the queue');
});

it.concurrent('takes the tokens of its queue, and ends what was opened with those that are gone', async () => {
  const stateDir = stateFolder();
  const env = { QUEUE_TOKENS: 'gateway:of-gateways,admin:an-admin', QUEUE_IDS: 'vllm-queue,team-*' };
  const own = await startQueue({ stateDir, env });
  const one = await startGateway(own.url, { GATEWAY_TOKEN: 'of-gateways' });
  const two = await startGateway(own.url, { GATEWAY_TOKEN: 'of-gateways' });
  const authorization = { authorization: 'Bearer an-admin' };
  const made = await fetch(`${one.url}/api/tokens`, {
    method: 'POST',
    headers: authorization,
    body: JSON.stringify({ name: 'w', scopes: ['worker', 'read'] }),
  });
  const { token } = (await made.json()) as { token: string };
  // The other gateway knows the new token at once, and the queue of a pattern has its worker there.
  const played = new RawWorker(two.url, token);
  await (await played.connect('team-a')).register('raw', { base: true });
  const gone = await fetch(`${one.url}/api/tokens/w`, { method: 'DELETE', headers: authorization });
  expect(gone.status).toBe(200);
  await until(() => played.closed !== null, 'the socket at the other gateway is closed');
  const statusOf = async (at: string, bearer: string) =>
    (await fetch(`${at}/api/workers`, { headers: { authorization: `Bearer ${bearer}` } })).status;
  await until(async () => (await statusOf(two.url, token)) === 401, 'the token is refused');
  // A token of the folder reaches both.
  const create = cli(['token', 'create', '--state', stateDir, '--scope', 'read', '--name', 'r']);
  await create.exited;
  const reader = /wv_[\w-]+/.exec(create.output())![0];
  for (const { url: at } of [one, two])
    await until(async () => (await statusOf(at, reader)) === 200, 'the new token is good');
  writeFileSync(join(stateDir, 'tokens.json'), '[]');
  for (const { url: at } of [one, two])
    await until(async () => (await statusOf(at, reader)) === 401, 'the old token is refused');
});
