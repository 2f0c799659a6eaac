import OpenAI, { toFile } from 'openai';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { answerLines } from '../support/line-worker.ts';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';

/** Files and batches where a bucket is bound, in the runtime and the R2 that wrangler simulates. */
const TOKEN = 'secret';
const SHA256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b';
const MIB = 1024 * 1024;
let queue: MiniflareQueue;

beforeAll(async () => {
  const tokens = [{ name: 'all', sha256: SHA256, scopes: ['admin'] }];
  queue = await startMiniflareQueue({ TOKENS: JSON.stringify(tokens), MAX_FILE_BYTES: String(20 * MIB) });
});
afterEach(closeRawWorkers);
afterAll(() => queue.stop());

const clientOf = (id: string) => {
  const headers = { 'x-queue-id': id };
  return new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: TOKEN, defaultHeaders: headers, maxRetries: 0 });
};
const upload = async (client: OpenAI, bytes: Uint8Array<ArrayBuffer>) =>
  client.files.create({ file: await toFile(bytes, 'in.jsonl'), purpose: 'batch' });

/** Bytes of which no two parts are alike. */
function bytesOf(length: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(length / 4)).map((_, index) => Math.imul(index, 2_654_435_761));
  return new Uint8Array(words.buffer, 0, length);
}

it.each([
  ['empty', 0],
  ['of less than a part', 5 * MIB + 1],
  ['of one part', 8 * MIB],
  ['of two parts and a bit', 16 * MIB + 7],
])('a file that is %s comes back byte for byte, and is gone when it is deleted', async (name, length) => {
  const client = clientOf(name.replaceAll(' ', '-'));
  const bytes = bytesOf(length);
  const { id, bytes: told } = await upload(client, bytes);
  expect(told).toBe(length);
  expect(await queue.keys()).toHaveLength(1);
  const content = await (await client.files.content(id)).arrayBuffer();
  expect(Buffer.from(content).equals(bytes)).toBe(true);
  await client.files.delete(id);
  expect(await queue.keys()).toEqual([]);
});

it('an upload that is refused in the middle leaves nothing', async () => {
  const client = clientOf('refused');
  await expect(upload(client, bytesOf(20 * MIB + 1))).rejects.toMatchObject({ status: 413 });
  await until(async () => (await queue.keys()).length === 0, 'the bucket is empty');
});

it('a batch reads its lines from the bucket, and what it wrote is there once it has ended', async () => {
  const client = clientOf('batch');
  const worker = await (await new RawWorker(queue.url, TOKEN).connect('batch')).register('w', {
    capacity: 4,
  });
  const { stop } = answerLines(worker, ({ messages }) => ({ body: { messages } }));
  // Its lines stand on both sides of the end of a part.
  const lines = Array.from({ length: 220 }, (_, n) => {
    const body = {
      model: 'tiny',
      messages: [{ role: 'user', content: `${n}`.repeat(40_000 / `${n}`.length) }],
    };
    return JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  const { id } = await upload(client, new TextEncoder().encode(lines.join('\n')) as never);
  const created = await client.batches.create({
    input_file_id: id,
    endpoint: '/v1/chat/completions',
    completion_window: '24h',
  });
  const ended = await until(
    async () => {
      const batch = await client.batches.retrieve(created.id);
      return batch.status === 'completed' ? batch : null;
    },
    'the batch to end',
    { timeoutMs: 100_000 },
  );
  stop();
  expect(ended.request_counts).toEqual({ total: 220, completed: 220, failed: 0 });
  const output = await (await client.files.content(ended.output_file_id!)).text();
  const byId = new Map(
    output
      .trim()
      .split('\n')
      .map((text) => [JSON.parse(text).custom_id, text]),
  );
  expect(byId.size).toBe(220);
  expect(JSON.parse(byId.get('line-219')!).response.body.messages).toEqual(
    JSON.parse(lines[219]!).body.messages,
  );
  expect(await queue.keys()).toHaveLength(2);
  // What lies in the bucket is not taken for an empty file without it.
  await queue.bind(false);
  await expect(client.files.content(id)).rejects.toMatchObject({ status: 503, code: 'bucket_unreadable' });
  await queue.bind(true);
  expect(await (await client.files.content(id)).text()).toBe(lines.join('\n'));
}, 120_000);

it('a batch whose file the bucket has lost fails, and holds up no other', async () => {
  const client = clientOf('lost');
  const worker = await (await new RawWorker(queue.url, TOKEN).connect('lost')).register('w');
  const { stop } = answerLines(worker, () => ({ body: {} }));
  const line = { method: 'POST', url: '/v1/chat/completions', body: { model: 'tiny', messages: [] } };
  const begin = async (name: string, isLost: boolean) => {
    const text = JSON.stringify({ custom_id: name, ...line });
    const { id } = await upload(client, new TextEncoder().encode(text) as never);
    if (isLost) await queue.lose(`files/${id}`);
    const asked = { endpoint: '/v1/chat/completions', completion_window: '24h' } as const;
    return await client.batches.create({ input_file_id: id, ...asked });
  };
  const become = (id: string, status: string) =>
    until(async () => {
      const batch = await client.batches.retrieve(id);
      return batch.status === status ? batch : null;
    }, `a batch that is ${status}`);
  const lost = await begin('lost', true);
  const other = await begin('other', false);
  expect((await become(other.id, 'completed')).request_counts?.completed).toBe(1);
  const { errors } = await become(lost.id, 'failed');
  expect(errors?.data).toMatchObject([
    { code: 'file_not_found', message: expect.stringContaining('upload it again') },
  ]);
  stop();
});
