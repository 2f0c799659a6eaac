import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ensureClients } from '../../scripts/clients/setup.ts';
import { ranScript } from '../support/client-scripts.ts';
import { until } from '../support/poll.ts';
import { bodyOf } from '../support/request-body.ts';
import {
  HELD,
  type QueueProcess,
  readyWorker,
  setPace,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Events that a real queue posts to a real HTTP server, read by OpenAI's client for Python, unmodified. */

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
/** By id: a post whose answer came too late is sent again. */
const posts = new Map<unknown, { headers: Record<string, unknown>; text: string }>();
const receiver = createServer(async (request, response) => {
  const text = await bodyOf(request);
  if (text === null) return;
  posts.set(request.headers['webhook-id'], { headers: request.headers, text });
  response.end();
});
receiver.listen(0, '127.0.0.1');
await once(receiver, 'listening');
const { port } = receiver.address() as AddressInfo;

let python: string;
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  ({ python } = await ensureClients());
  queue = await startQueue({
    env: {
      QUEUE_WEBHOOK_HOSTS: `private:127.0.0.1:${port}`,
      QUEUE_WEBHOOK_SECRET: SECRET,
      QUEUE_WEBHOOK_URL: `http://127.0.0.1:${port}/events`,
    },
  });
  worker = await readyWorker(queue.url, 'w', { engineArgs: HELD });
});
afterAll(tearDown);
afterAll(() => receiver.close());

const LINE = {
  custom_id: 'one',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'tiny', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4 },
};

it('the ends of responses and batches, read by client.webhooks.unwrap', async () => {
  const ask = async (path: string, body: object | FormData) => {
    const isForm = body instanceof FormData;
    const init = isForm
      ? { body }
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const answer = await fetch(`${queue.url}${path}`, { method: 'POST', ...init });
    return (await answer.json()) as { id: string; error?: unknown };
  };
  const asked = { model: 'tiny', background: true, input: 'Hi' };
  const long = await ask('/v1/responses', { ...asked, max_output_tokens: 20_000 });
  await ask(`/v1/responses/${long.id}/cancel`, {});
  await setPace(worker.engineUrl, 0);
  const short = await ask('/v1/responses', { ...asked, max_output_tokens: 4 });
  const batchOf = async (line: string) => {
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob([line]), 'in.jsonl');
    const { id: input_file_id } = await ask('/v1/files', form);
    return await ask('/v1/batches', { input_file_id, endpoint: LINE.url, completion_window: '24h' });
  };
  const good = await batchOf(JSON.stringify(LINE));
  const bad = await batchOf('no JSON');
  await until(() => posts.size >= 4, 'four events are posted');
  const lines = Array.from(posts.values(), (post) => JSON.stringify(post)).join('\n');
  const seen = (await ranScript(python, 'webhooks.py', SECRET, lines)) as unknown as string[][];
  expect(seen.sort()).toEqual(
    [
      ['BatchCompletedWebhookEvent', 'batch.completed', good.id],
      ['BatchFailedWebhookEvent', 'batch.failed', bad.id],
      ['ResponseCancelledWebhookEvent', 'response.cancelled', long.id],
      ['ResponseIncompleteWebhookEvent', 'response.incomplete', short.id],
    ].sort(),
  );
});
