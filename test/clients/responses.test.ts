import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ClientsInstall, ensureClients } from '../../scripts/clients/setup.ts';
import { ranScript } from '../support/client-scripts.ts';
import { until } from '../support/poll.ts';
import { responsesSeen } from '../support/responses-seen.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** OpenAI's Python client, unmodified, over responses and conversations that the queue keeps. */
let clients: ClientsInstall;
let queue: QueueProcess;

beforeAll(async () => {
  clients = await ensureClients();
  queue = await startQueue();
  await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 5' });
});
afterAll(tearDown);

describe('OpenAI’s Python client', () => {
  // The parts: a chain with its items; a stream; polled, left and taken up again, cancelled; a conversation.
  it.each(Object.entries(responsesSeen('completed')))(
    'uses responses as its documentation says: %s',
    async (part, seen) => {
      expect(await ranScript(clients.python, 'openai_responses.py', queue.url, 'tiny', part)).toEqual(seen);
    },
  );
});

describe('OpenAI’s client for Node', () => {
  const model = 'tiny';
  let client: OpenAI;

  beforeAll(() => {
    client = new OpenAI({ baseURL: `${queue.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });

  const ended = async (id: string) =>
    await until(async () => {
      const response = await client.responses.retrieve(id);
      return /queued|in_progress/.test(response.status!) ? null : response;
    }, 'the response to end');

  it('goes on from a response, reads its input and deletes it', async () => {
    const first = await client.responses.create({ model, input: 'One.' });
    const second = await client.responses.create({
      model,
      input: 'Two.',
      previous_response_id: first.id,
    });
    expect((await client.responses.retrieve(second.id)).output_text).toBe(second.output_text);
    const counted = await client.responses.inputTokens.count({ model, input: 'One.' });
    expect(counted.input_tokens).toBe(first.usage?.input_tokens);
    const roles: string[] = [];
    for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 1 }))
      if (item.type === 'message') roles.push(item.role);
    expect(roles).toEqual(['user', 'assistant', 'user']);
    await client.responses.delete(first.id);
    await expect(client.responses.retrieve(first.id)).rejects.toMatchObject({ status: 404 });
  });

  it('takes the stream of a response in the background up again where it left it', async () => {
    const asked = { model, input: 'Say hello.', temperature: 0 };
    const whole = await client.responses.create(asked);
    const seen: OpenAI.Responses.ResponseStreamEvent[] = [];
    const left = client.responses.stream({ ...asked, background: true });
    for await (const event of left) if (seen.push(event) > 10) break;
    const { id } = (seen[0] as OpenAI.Responses.ResponseCreatedEvent).response;
    const again = client.responses.stream({ response_id: id, starting_after: 10 });
    for await (const event of again) seen.push(event);
    expect(seen.map((event) => event.sequence_number)).toEqual(seen.map((_, number) => number));
    const said = seen.map((event) => (event.type === 'response.output_text.delta' ? event.delta : ''));
    expect(said.join('')).toBe(whole.output_text);
    expect((await again.finalResponse()).output_text).toBe(whole.output_text);
  });

  it('polls a response in the background, and cancels one', async () => {
    const { id } = await client.responses.create({ model, input: 'Say hello.', background: true });
    expect(await ended(id)).toMatchObject({ status: 'completed', background: true });
    const long = { model, input: 'Say much.', background: true, ignore_eos: true } as const;
    const running = await client.responses.create(long);
    expect(await client.responses.cancel(running.id)).toMatchObject({ status: 'cancelled' });
    expect((await client.responses.retrieve(running.id)).status).toBe('cancelled');
  });

  it('holds a conversation', async () => {
    const talk = await client.conversations.create({ items: [{ role: 'user', content: 'I am Ada.' }] });
    await client.responses.create({ model, input: 'Who am I?', conversation: talk.id });
    await client.responses.stream({ model, input: 'Sure?', conversation: { id: talk.id } }).finalResponse();
    const items: unknown[] = [];
    for await (const item of client.conversations.items.list(talk.id, { limit: 2 })) items.push(item);
    expect(items).toHaveLength(5);
    expect(await client.conversations.delete(talk.id)).toMatchObject({ deleted: true });
  });
});
