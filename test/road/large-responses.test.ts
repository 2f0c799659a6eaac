import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** Responses with items that are longer than a row of a database on Cloudflare. */
let queue: QueueProcess;
let client: OpenAI;

beforeAll(async () => {
  queue = await startQueue();
  client = new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });
  await readyWorker(queue.url, 'w', { engineArgs: '--max-model-len 16m' });
});
afterAll(tearDown);

const LONG = `Begin. ${'ä 🙂 words. '.repeat(300_000)}End.`;
const ASKED = { model: 'tiny', max_output_tokens: 5 } as const;
const STORED = { type: 'message', role: 'user', content: [{ type: 'input_text', text: LONG }] };

async function inputOf(id: string): Promise<unknown[]> {
  return (await client.responses.inputItems.list(id, { order: 'asc' })).data;
}

async function ended(id: string): Promise<string | undefined> {
  const response = await until(async () => {
    const now = await client.responses.retrieve(id);
    return now.status === 'queued' || now.status === 'in_progress' ? null : now;
  }, `${id} has ended`);
  return response.status;
}

describe('an item of several megabytes', () => {
  it('is stored with its response, and gone on from', async () => {
    const first = await client.responses.create({ ...ASKED, input: LONG });
    expect(await inputOf(first.id)).toMatchObject([STORED]);
    const next = await client.responses.create({ ...ASKED, input: 'On.', previous_response_id: first.id });
    expect(next.usage!.input_tokens).toBeGreaterThan(first.usage!.input_tokens);
    await client.responses.delete(first.id);
    expect((await inputOf(next.id))[0]).toMatchObject(STORED);
  });

  it('is stored with a response in the background', async () => {
    const { id } = await client.responses.create({ ...ASKED, input: LONG, background: true });
    expect(await ended(id)).toBe('incomplete');
    expect(await inputOf(id)).toMatchObject([STORED]);
  });

  it('is stored in a conversation', async () => {
    const items = [{ type: 'message' as const, role: 'user' as const, content: LONG }];
    const { id } = await client.conversations.create({ items });
    const listed = await client.conversations.items.list(id);
    expect(listed.data).toMatchObject([STORED]);
    const response = await client.responses.create({ ...ASKED, input: 'On.', conversation: id });
    expect(response.status).toBe('incomplete');
  });
});
