import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';
import { ranScript } from '../support/client-scripts.ts';
import { until } from '../support/poll.ts';
import {
  engineRunning,
  type QueueProcess,
  readyWorker,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** The official Python clients, unmodified, over the road with the simulator. */
let clients: ClientsInstall;
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  clients = await ensureClients();
  queue = await startQueue();
  worker = await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 10' });
});
afterAll(tearDown);

it('OpenAI’s: chat, streams, responses, embeddings, errors, time-outs and aborts', async () => {
  const seen = await ranScript(clients.python, 'openai_client.py', queue.url, 'tiny', '--embeddings');
  expect(seen).toMatchObject({
    chat: { tokens: 8 },
    stream: seen.chat,
    completion: 4,
    request_id: 'req-of-python',
    responses: { text: true },
    response_events: ['response.created', expect.stringMatching(/^response\.(completed|incomplete)$/)],
    unknown_model: [404, 'model_not_found'],
    bad_request: 400,
    timeout: true,
    embeddings: 2,
  });
  await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine to stop generating');
});

it('Anthropic’s: messages, streams, counting and errors', async () => {
  expect(await ranScript(clients.python, 'anthropic_client.py', queue.url, 'tiny')).toMatchObject({
    message: ['message', 'assistant', 8],
    same_text: true,
    stop: true,
    count: true,
    unknown_model: [404, 'error', 'not_found_error'],
  });
});
