import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filesWith } from '../support/on-disk.ts';
import { until } from '../support/poll.ts';
import {
  engineRunning,
  HELD,
  isDeployed,
  killQueue,
  type QueueProcess,
  readyWorker,
  setPace,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Conversations with callers that wait, who leave, whose worker dies and whose gateway is killed. */
let queue: QueueProcess;
let worker: WorkerProcess;
let workers = 0;

const startAnotherWorker = async () => {
  workers += 1;
  worker = await readyWorker(queue.url, `w${workers}`, { engineArgs: HELD });
};

beforeAll(async () => {
  queue = await startQueue();
  await startAnotherWorker();
});
afterAll(tearDown);

async function ask(method: string, path: string, body?: object, signal?: AbortSignal) {
  return await fetch(queue.url + path, {
    method,
    ...(signal && { signal }),
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  });
}

async function json(method: string, path: string, body?: object) {
  const answer = await ask(method, path, body);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

const newConversation = async () => String((await json('POST', '/v1/conversations', {})).body.id);

/** So long that no answer of an engine that is held ends by itself. */
const ASKED = { model: 'tiny', input: 'hello', max_output_tokens: 100, ignore_eos: true };

/** Begins a response in a conversation that does not end by itself before the test lets it. */
async function begin(conversation: string, more: object = {}, signal?: AbortSignal): Promise<Response> {
  const answer = await ask(
    'POST',
    '/v1/responses',
    { ...ASKED, conversation, stream: true, ...more },
    signal,
  );
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

async function codeOfAdding(conversation: string): Promise<unknown> {
  const items = [{ role: 'user', content: 'more' }];
  const { status, body } = await json('POST', `/v1/conversations/${conversation}/items`, { items });
  return status === 200 ? null : (body.error as { code: unknown }).code;
}

async function untilFree(conversation: string): Promise<void> {
  await until(async () => (await codeOfAdding(conversation)) === null, 'the conversation is free', {
    timeoutMs: 60_000,
  });
}

describe('a conversation in which a response is made', () => {
  it('refuses one of two at once, and is free when the other has ended', async () => {
    const id = await newConversation();
    const first = await begin(id);
    const second = await json('POST', '/v1/responses', { ...ASKED, conversation: id });
    expect([second.status, second.body.error]).toMatchObject([
      400,
      { type: 'invalid_request_error', param: 'conversation', code: 'conversation_locked' },
    ]);
    expect(await codeOfAdding(id)).toBe('conversation_locked');
    await setPace(worker.engineUrl, 1);
    expect(await first.text()).toContain('event: response.incomplete');
    expect(await codeOfAdding(id)).toBeNull();
    const items = await json('GET', `/v1/conversations/${id}/items?order=asc`);
    expect(items.body.data).toMatchObject([{ role: 'user' }, { role: 'assistant' }, { role: 'user' }]);
    // The whole answer, and the next one, which gets the items so far.
    const third = await json('POST', '/v1/responses', { ...ASKED, conversation: id });
    expect(third.body).toMatchObject({ status: 'incomplete', conversation: { id } });
    expect(await codeOfAdding(id)).toBeNull();
    await setPace(worker.engineUrl, 2000);
  });

  it.skipIf(isDeployed).each([true, false])(
    'is free when its caller hangs up (stream: %s)',
    async (stream) => {
      const id = await newConversation();
      const caller = new AbortController();
      const asked = begin(id, { stream, max_output_tokens: 500 }, caller.signal).catch(() => null);
      await until(async () => (await engineRunning(worker.engineUrl)) > 0, 'it runs');
      expect(await codeOfAdding(id)).toBe('conversation_locked');
      if (stream) await asked;
      caller.abort();
      await untilFree(id);
      // The next test takes what the engine runs for its own.
      await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine has stopped');
    },
  );

  it('is free when the engine refuses the request', async () => {
    const id = await newConversation();
    const refused = await json('POST', '/v1/responses', { ...ASKED, conversation: id, temperature: -1 });
    expect(refused.status).toBe(400);
    expect(await codeOfAdding(id)).toBeNull();
  });

  it('is free when its worker is killed in the middle', async () => {
    const id = await newConversation();
    const answer = await begin(id, { max_output_tokens: 500 });
    await until(async () => (await engineRunning(worker.engineUrl)) > 0, 'it runs');
    worker.process.kill('SIGKILL');
    expect(await answer.text()).toContain('event: response.failed');
    expect(await codeOfAdding(id)).toBeNull();
    await startAnotherWorker();
  });

  it('is free some seconds after its gateway was killed', async () => {
    const id = await newConversation();
    const answer = await begin(id, { max_output_tokens: 500 });
    void answer.text().catch(() => {});
    await until(async () => (await engineRunning(worker.engineUrl)) > 0, 'it runs');
    await killQueue(queue);
    queue = await startQueue(queue);
    expect(await codeOfAdding(id)).toBe('conversation_locked');
    await untilFree(id);
  });
});

it('OpenAI’s client makes a conversation, adds to it, pages through it and deletes it', async () => {
  await setPace(worker.engineUrl, 1);
  const { conversations, responses } = new OpenAI({
    baseURL: `${queue.url}/v1`,
    apiKey: 'none',
    maxRetries: 0,
  });
  const message = (content: string) => ({ type: 'message', role: 'user', content }) as const;
  const made = await conversations.create({ metadata: { topic: 'x' }, items: [message('one')] });
  const added = await conversations.items.create(made.id, { items: [message('two'), message('three')] });
  expect(added.data).toHaveLength(2);
  await responses.create({ model: 'tiny', input: 'four', conversation: made.id, max_output_tokens: 2 });
  const ids: (string | null | undefined)[] = [];
  for await (const item of conversations.items.list(made.id, { limit: 2, order: 'asc' }))
    ids.push((item as { id?: string }).id);
  expect(new Set(ids).size).toBe(5);
  expect(ids.slice(1, 3)).toEqual(added.data.map((item) => (item as { id?: string }).id));
  const item = await conversations.items.retrieve(ids[0]!, { conversation_id: made.id });
  expect(item).toMatchObject({ type: 'message', content: [{ type: 'input_text', text: 'one' }] });
  expect(await conversations.items.delete(ids[0]!, { conversation_id: made.id })).toEqual(made);
  const changed = await conversations.update(made.id, { metadata: { topic: 'y' } });
  expect(await conversations.retrieve(made.id)).toEqual({ ...made, metadata: changed.metadata });
  expect(await conversations.delete(made.id)).toEqual({
    id: made.id,
    object: 'conversation.deleted',
    deleted: true,
  });
  await expect(conversations.retrieve(made.id)).rejects.toMatchObject({ status: 404 });
  await setPace(worker.engineUrl, 2000);
});

describe('a response that is not to be stored', () => {
  it('leaves no byte on the disk, however it ends', async () => {
    const word = 'Xylophonkonzert';
    const onDisk = () => filesWith(queue.stateDir, word);
    const id = await newConversation();
    await setPace(worker.engineUrl, 1);
    const input = `${word} ${word}`;
    const whole = await json('POST', '/v1/responses', { ...ASKED, input, store: false });
    expect(whole.status).toBe(200);
    await (await begin(id, { input, store: false })).text();
    await json('POST', '/v1/responses', { ...ASKED, input, store: false, temperature: -1 });
    if (!isDeployed) await leave(id, input);
    expect(onDisk()).toEqual([]);
    // So that this test would see it.
    await json('POST', '/v1/responses', { ...ASKED, input });
    expect(onDisk()).not.toEqual([]);
  });
});

/** Begins a response that is not to be stored, and hangs up in the middle. */
async function leave(conversation: string, input: string): Promise<void> {
  await setPace(worker.engineUrl, 2000);
  const caller = new AbortController();
  await begin(conversation, { input, store: false, max_output_tokens: 500 }, caller.signal);
  caller.abort();
  await untilFree(conversation);
  await setPace(worker.engineUrl, 1);
}
