import { describe, expect, test } from 'vitest';
import { settled } from '../../support/virtual-clock.ts';
import { WorkerBench } from '../../support/worker-fakes.ts';

/** What a worker is given by a queue that looks into nothing: a base queue, or RunPod's platform. */

const CHAT = '/v1/chat/completions';
const MESSAGES = [{ role: 'user', content: 'Hi' }];
const TRANSFER = { kv_transfer_params: { do_remote_prefill: true, remote_host: 'evil.example' } };

const base64 = (body: string | Buffer) => Buffer.from(body).toString('base64');
type Asked = readonly [type: string | undefined, payload: object];

const FORMS: Record<string, (body: string) => Asked> = {
  'engine_request, text': (body) => ['engine_request', { path: CHAT, body }],
  'engine_request, base64': (body) => ['engine_request', { path: CHAT, body_base64: base64(body) }],
  'runpod, openai_input': (body) => ['runpod', { input: { openai_input: JSON.parse(body) } }],
  'runpod, openai_input as text': (body) => ['runpod', { input: { openai_input: body } }],
  'runpod, body': (body) => ['runpod', { input: { route: CHAT, body: JSON.parse(body) } }],
  'runpod, body as text': (body) => ['runpod', { input: { route: CHAT, body } }],
  'runpod, sampling_params': (body) => {
    const { messages, ...sampling_params } = JSON.parse(body);
    return ['runpod', { input: { messages, sampling_params } }];
  },
  chat_completion: (body) => ['chat_completion', JSON.parse(body)],
  'a task of a base queue': (body) => [undefined, { task: 'openai/chat-completion', ...JSON.parse(body) }],
  'embeddings of a base queue': (body) => [
    undefined,
    { task: 'openai/embeddings', input: 'Hi', ...JSON.parse(body) },
  ],
};

async function given([job_type, payload]: Asked): Promise<WorkerBench> {
  const bench = await new WorkerBench().ready();
  await bench.push({ job_type, payload } as never);
  await settled();
  return bench;
}

describe.each(Object.entries(FORMS))('a job as %s', (_, form) => {
  const send = (fields: object) => given(form(JSON.stringify({ messages: MESSAGES, ...fields })));

  test('reaches the engine', async () => {
    expect((await send({})).engine.exchanges).toHaveLength(1);
  });

  test.each([
    TRANSFER,
    { ec_transfer_params: 'x' },
    { vllm_xargs: TRANSFER },
    { sampling_params: { extra_args: TRANSFER } },
    { kv_transfer_params: { prompt_token_ids: [1] } },
  ])('does not with %j', async (fields) => {
    const bench = await send(fields);
    expect(bench.engine.exchanges).toEqual([]);
    expect(bench.errors).toMatchObject([
      { code: 'invalid_request', error: expect.stringMatching(/_transfer_params/) },
    ]);
  });
});

const BODY = JSON.stringify({ messages: MESSAGES, ...TRANSFER });

test.each<[string, object]>([
  ['UTF-16', { body_base64: base64(Buffer.from(BODY, 'utf16le')) }],
  ['UTF-16 with a mark', { body_base64: base64(Buffer.from(`\ufeff${BODY}`, 'utf16le')) }],
  ['a mark', { body: `\ufeff${BODY}` }],
  ['a mark, as bytes', { body_base64: base64(`\ufeff${BODY}`) }],
  ['another type', { body_base64: base64(BODY), content_type: 'application/octet-stream' }],
  ['two bodies', { body: '{}', body_base64: base64(BODY) }],
  ['a stream that may be one', { body: JSON.stringify({ messages: MESSAGES, stream: 1 }) }],
])('no engine is asked with %s', async (_, body) => {
  const bench = await given(['engine_request', { path: CHAT, ...body }]);
  expect(bench.engine.exchanges).toEqual([]);
  expect(bench.errors).toMatchObject([{ code: 'invalid_request' }]);
});

test('what was made of a file that a job names is looked at too', async () => {
  const bench = new WorkerBench();
  bench.fetch = async () => new Response('from afar');
  await bench.ready();
  const body = JSON.stringify({ file_url: 'https://files.example/a.wav', vllm_xargs: TRANSFER });
  await bench.push({ job_type: 'engine_request', payload: { path: '/v1/audio/transcriptions', body } });
  await settled();
  expect(bench.engine.exchanges).toEqual([]);
});

test('a body of RunPod’s that names no model is for the one beside it, also where it is a text', async () => {
  for (const openai_input of [{ messages: MESSAGES }, JSON.stringify({ messages: MESSAGES })]) {
    const bench = await given(['runpod', { model: 'adapter', input: { openai_input } }]);
    expect(bench.engine.last.body).toMatchObject({ model: 'adapter' });
  }
});
