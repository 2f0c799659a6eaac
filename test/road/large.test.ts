import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bounds } from '../../src/protocol/index.ts';
import {
  chatJob,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
} from '../support/road.ts';

/** Payloads and results too large for a frame, over the road as its users start it. */
let queue: QueueProcess;
/** Between worker and queue; tells which files went through. */
let listener: Server;
const files: string[] = [];

beforeAll(async () => {
  queue = await startQueue();
  listener = createServer((worker) => {
    const server = connect(queue.port, '127.0.0.1');
    for (const socket of [worker, server]) socket.on('error', () => worker.destroy());
    worker.on('data', (data) => {
      const request = /(GET|PUT) \/jobs\/[^/]+\/(payload|result)/.exec(data.toString('latin1'));
      if (request) files.push(`${request[1]} ${request[2]}`);
    });
    worker.pipe(server).pipe(worker);
  });
  await new Promise<void>((listening) => listener.listen(0, '127.0.0.1', listening));
});
afterAll(async () => {
  await tearDown();
  listener.close();
});

it('a payload of 5 MiB and a result of more than 256 KiB go by reference and arrive whole', async () => {
  await readyWorker(queue.url, 'large', {
    engineArgs: '--max-model-len 4m',
    env: { CASOLA_WS_URL: `ws://127.0.0.1:${(listener.address() as AddressInfo).port}` },
  });
  const content = `Begin. ${'ä 🙂 '.repeat((5 * 1024 * 1024) / 8)} End.`;
  const tokens = 80_000;
  const { id } = await submit(queue.url, {
    ...chatJob(tokens),
    payload: { messages: [{ role: 'user', content }], max_tokens: tokens, ignore_eos: true },
  });
  const view = await settled(queue.url, id);
  expect(view).toMatchObject({ state: 'succeeded', attempts: 1, worker_id: 'large' });
  const { completion } = view.result as {
    completion: { usage: object; choices: { message: { content: string } }[] };
  };
  expect(completion.usage).toMatchObject({ completion_tokens: tokens });
  // The simulator counts a token for every four bytes.
  const promptTokens = (completion.usage as { prompt_tokens: number }).prompt_tokens;
  expect(promptTokens).toBeGreaterThanOrEqual(Math.ceil(Buffer.byteLength(content) / 4));
  expect(completion.choices[0]?.message.content.length).toBeGreaterThan(256 * 1024);
  expect(files).toEqual(['GET payload', 'PUT result']);
});

it('an answer of many MiB in one piece reaches a caller that reads it slowly whole', async () => {
  const response = await fetch(`${queue.url}/v1/embeddings`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input: Array.from({ length: 100_000 }, (_, at) => `${at}`) }),
  });
  expect(response.status).toBe(200);
  // Time for all of it to come, if nothing held it back.
  await setTimeout(1000);
  const text = await response.text();
  expect(text.length).toBeGreaterThan(bounds.SENT_WHILE_PAUSED_BYTES + 4 * 1024 * 1024);
  expect((JSON.parse(text) as { data: object[] }).data).toHaveLength(100_000);
});
