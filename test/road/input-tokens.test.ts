import { afterAll, beforeAll, expect, it } from 'vitest';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';

/** The tokens of a request for a response are those that its response reports afterwards. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w', { engineArgs: '--enable-scale-out' });
});
afterAll(tearDown);

interface Answer {
  id: string;
  input_tokens: number;
  usage: { input_tokens: number };
  error: { code: string };
}

async function post(path: string, body: object) {
  const answer = await fetch(queue.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', ...body }),
  });
  return { status: answer.status, body: (await answer.json()) as Answer };
}

const count = (body: object) => post('/v1/responses/input_tokens', body);

const TURN = { input: 'How many tokens are these?', instructions: 'Be brief.' };

it('with all that it goes on from, and nothing is stored', async () => {
  const first = (await post('/v1/responses', { ...TURN, max_output_tokens: 4 })).body;
  const alone = await count({ ...TURN, stream: true, background: true });
  expect([alone.status, alone.body]).toEqual([
    200,
    { object: 'response.input_tokens', input_tokens: first.usage.input_tokens },
  ]);
  const next = { input: 'And these?', previous_response_id: first.id };
  const counted = (await count(next)).body.input_tokens;
  const second = (await post('/v1/responses', { ...next, max_output_tokens: 4 })).body;
  expect(counted).toBe(second.usage.input_tokens);
  expect(counted).toBeGreaterThan(first.usage.input_tokens);
});

it('of a conversation, which is not locked by it', async () => {
  const conversation = (await post('/v1/conversations', { model: undefined })).body.id;
  await post('/v1/responses', { ...TURN, conversation, max_output_tokens: 4 });
  const next = { input: 'And these?', conversation };
  const counted = (await count(next)).body.input_tokens;
  expect((await count(next)).body.input_tokens).toBe(counted);
  const made = await post('/v1/responses', { ...next, max_output_tokens: 4 });
  expect([made.status, made.body.usage.input_tokens]).toEqual([200, counted]);
});

it('with the statuses of a request for a response', async () => {
  const missing = await count({ ...TURN, previous_response_id: 'resp_none' });
  expect([missing.status, missing.body.error.code]).toEqual([400, 'previous_response_not_found']);
  const unknown = await count({ ...TURN, model: 'none' });
  expect([unknown.status, unknown.body.error.code]).toEqual([404, 'model_not_found']);
});

it('by /tokenize, where the engine renders no responses, and 501 where it has neither', async () => {
  const { body: whole } = await count(TURN);
  const without = { INFERENCE_ROUTES: '-POST /v1/responses/render' };
  await readyWorker(queue.url, 'chat', { engineArgs: '--served-model-name chat', env: without });
  expect((await count({ ...TURN, model: 'chat' })).body.input_tokens).toBe(whole.input_tokens);
  // vLLM has the route, and refuses it unless it was started with --enable-scale-out.
  await readyWorker(queue.url, 'plain', { engineArgs: '--served-model-name plain' });
  expect((await count({ ...TURN, model: 'plain' })).body.input_tokens).toBe(whole.input_tokens);
  const neither = { INFERENCE_ROUTES: '-POST /v1/responses/render,-POST /tokenize' };
  await readyWorker(queue.url, 'none', { engineArgs: '--served-model-name blind', env: neither });
  const refused = await count({ ...TURN, model: 'blind' });
  expect([refused.status, refused.body.error.code]).toEqual([501, 'not_supported']);
});
