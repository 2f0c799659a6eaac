import { afterAll, beforeAll, expect, it } from 'vitest';
import { faultsOf, faultsOfSchema } from '../support/contract.ts';
import { until } from '../support/poll.ts';
import { REFUSED_FIRST } from '../support/raw-worker.ts';
import { startReceiver } from '../support/receiver.ts';
import {
  chatJob,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
} from '../support/road.ts';

/** Answers of a real gateway are as /openapi.json describes them. */

const HOOK = 'private:127.0.0.1';
/** Signs webhooks. */
const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;

let queue: QueueProcess;
beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_WEBHOOK_HOSTS: HOOK, QUEUE_WEBHOOK_SECRET: SECRET } });
  const shipping = {
    CASOLA_LOGS_URL: `${queue.url}/api/logs`,
    CASOLA_METRICS_URL: `${queue.url}/api/metrics`,
  };
  await readyWorker(queue.url, 'w1', { env: { ...shipping, CASOLA_LOG_FLUSH_INTERVAL: '1' } });
});
afterAll(tearDown);

/** Asks, checks the answer, and gives it. */
async function ask(method: string, path: string, status: number, body?: unknown): Promise<never> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const type = typeof body === 'string' ? 'application/x-ndjson' : 'application/json';
  const headers = { 'content-type': type, ...(status >= 400 && REFUSED_FIRST) };
  const response = await fetch(queue.url + path, {
    method,
    ...(body === undefined ? {} : { body: text, headers }),
  });
  const answer = await response.text();
  expect([response.status, answer]).toEqual([status, expect.anything()]);
  const mime = response.headers.get('content-type') ?? undefined;
  const values = mime?.startsWith('application/x-ndjson') ? answer.trim().split('\n') : [answer];
  const parsed = values.map((value) => JSON.parse(value) as unknown);
  const { pathname } = new URL(path, queue.url);
  expect(parsed.flatMap((value) => faultsOf(method, pathname, response.status, value, mime))).toEqual([]);
  return parsed[0] as never;
}

it('of jobs', async () => {
  const { id } = (await ask('POST', '/api/jobs', 201, chatJob(4))) as { id: string };
  await ask('POST', '/api/jobs', 200, [chatJob(4), { nonsense: true }]);
  await ask('POST', '/api/jobs', 200, `${JSON.stringify(chatJob(2))}\n{"no":1}\n`);
  await settled(queue.url, id);
  await ask('GET', `/api/jobs/${id}`, 200);
  await ask('GET', `/api/jobs/${id}/ledger`, 200);
  await ask('GET', '/api/jobs?state=succeeded', 200);
  await ask('DELETE', `/api/jobs/${id}`, 200);
  const failing = {
    job_type: 'engine_request',
    config_id: 'cfg',
    payload: { path: '/v1/completions', body: JSON.stringify({ prompt: 'Hello', max_tokens: -3 }) },
  };
  const { id: failed } = await submit(queue.url, failing);
  await settled(queue.url, failed as string);
  await ask('GET', `/api/jobs/${failed}`, 200);
  await ask('GET', '/api/jobs?state=failed', 200);
  await ask('POST', `/api/jobs/${failed}/retry`, 200);
});

it('of errors', async () => {
  await ask('GET', '/api/jobs/nothing', 404);
  await ask('GET', '/api/jobs?state=odd', 400);
  await ask('POST', '/api/jobs', 400, {});
  await ask('POST', '/v1/chat/completions', 404, { model: 'nothing', messages: [] });
  await ask('POST', '/v1/messages', 404, { model: 'nothing', messages: [] });
  await ask('GET', '/v2/cfg/status/nothing', 404);
  await ask('GET', '/ws', 426);
});

it('of workers and models', async () => {
  await ask('GET', '/api/workers', 200);
  await ask('GET', '/api/fleet', 200);
  await ask('GET', '/api/fleet/history?range=1h&config_id=cfg', 200);
  await ask('GET', '/health', 200);
  await ask('GET', '/healthz', 200);
  await ask('GET', '/api/scale?config_id=cfg', 200);
  await ask('GET', '/api/scale', 400);
  await ask('GET', '/v1/models', 200);
  await ask('GET', '/v1/models/tiny', 200);
  await until(
    async () => ((await ask('GET', '/api/workers/w1/logs', 200)) as { logs: unknown[] }).logs.length > 0,
    'log lines have come',
  );
  await ask('GET', '/api/workers/w1/metrics', 200);
});

it('of the engine', async () => {
  const body = { model: 'tiny', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2 };
  await ask('POST', '/v1/chat/completions', 200, body);
});

it("of RunPod's endpoints", async () => {
  const input = { prompt: 'Hello', sampling_params: { max_tokens: 2 } };
  const { id } = (await ask('POST', '/v2/cfg/run', 200, { input })) as { id: string };
  await ask('POST', '/v2/cfg/runsync', 200, { input });
  await settled(queue.url, id);
  await ask('GET', `/v2/cfg/status/${id}`, 200);
  await ask('GET', `/v2/cfg/stream/${id}`, 200);
  await ask('POST', `/v2/cfg/cancel/${id}`, 200);
  await ask('POST', `/v2/cfg/retry/${id}`, 400);
  await ask('GET', '/v2/cfg/health', 200);
  await ask('POST', '/v2/cfg/purge-queue', 200);
});

it('of usage', async () => {
  await ask('GET', '/api/usage?group_by=config_id,model', 200);
  await ask('GET', '/v1/organization/usage/completions?start_time=1767225600&bucket_width=1d', 200);
  await ask('GET', '/api/usage?width=year', 400);
  await ask('GET', '/api/scale?config_id=cfg', 200);
});

it('of files, batches and sessions', async () => {
  await ask('GET', '/v1/files', 200);
  await ask('GET', '/v1/batches', 200);
  await ask('GET', '/v1/batches/nothing', 404);
  await ask('GET', '/api/session', 200);
});

it('of documents', async () => {
  const document = (await ask('GET', '/openapi.json', 200)) as { openapi: string };
  expect(document.openapi).toBe('3.1.1');
});

it('of webhooks', async () => {
  const receiver = await startReceiver();
  try {
    const { id } = await submit(queue.url, chatJob(2, { webhook: `${receiver.url}/hook` }));
    const [post] = await until(() => (receiver.posts.length > 0 ? receiver.posts : null), 'the webhook');
    expect(post?.body).toMatchObject({ data: { id } });
    expect(faultsOfSchema('Webhook', post?.body)).toEqual([]);
  } finally {
    await receiver.stop();
  }
});

it('of sockets', async () => {
  const program = await framesOf('/api/jobs/socket', [
    { type: 'submit', jobs: [{ ...chatJob(1), id: 'by-socket' }, { id: 'odd' }] },
    { type: 'listen', ids: ['nobody'] },
  ]);
  await until(() => program.types().has('settled') && program.types().has('unknown'), 'frames of jobs');
  expect(program.frames.flatMap((frame) => faultsOfSchema('ClientAnswer', frame))).toEqual([]);

  const viewer = await framesOf('/api/fleet/live', [{ type: 'watch' }]);
  await until(() => viewer.types().has('full'), 'the view');
  expect(viewer.frames.flatMap((frame) => faultsOfSchema('FleetFrame', frame))).toEqual([]);

  const register = { worker_id: 'raw', config_id: 'raw', capacity: 1, protocol: 1 };
  const worker = await framesOf('/ws?worker_id=raw&config_id=raw', [
    { type: 'register', ...register },
    { type: 'renew', jobs: [{ job_id: 'x', fence_token: 1 }] },
    { type: 'nonsense' },
  ]);
  await submit(queue.url, chatJob(1, { config_id: 'raw' }));
  await until(() => worker.types().has('job') && worker.types().has('renewed'), 'frames of the queue');
  expect(worker.frames.flatMap((frame) => faultsOfSchema('QueueFrame', frame))).toEqual([]);
  for (const { socket } of [program, viewer, worker]) socket.close();
});

/** What comes on a socket on which this is said. */
async function framesOf(path: string, said: object[]) {
  const socket = new WebSocket(queue.url.replace(/^http/, 'ws') + path);
  const frames: { type: string }[] = [];
  socket.addEventListener('message', ({ data }) => frames.push(...[JSON.parse(data)].flat()));
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', reject);
  });
  for (const frame of said) socket.send(JSON.stringify(frame));
  return { socket, frames, types: () => new Set(frames.map(({ type }) => type)) };
}
