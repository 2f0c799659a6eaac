import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { ENGINE_ROUTES, type EngineRoute } from '../../src/protocol/engine-routes.ts';
import { filesWith } from '../support/on-disk.ts';
import { until } from '../support/poll.ts';
import { type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Every route that generates, and embeddings, leave one record on every road: with input, output and whose it was. */

const SETTINGS = {
  KEEP_REQUESTS: 'all',
  TOKENS: JSON.stringify([
    tokenEntry('app', ['submit'], { tenant: 'team' }),
    tokenEntry('quiet', ['submit'], { keep: false }),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin']),
  ]),
};
const road = startTestQueue(SETTINGS);

const WORD = 'Zwitschermaschine';
const SAID = 'Kaleidoskop';
const MESSAGES = [{ role: 'user', content: WORD }];
const BODIES: Record<NonNullable<EngineRoute['generates']>, object> = {
  chat: { messages: MESSAGES },
  chats: { messages: [MESSAGES] },
  text: { prompt: WORD },
  tokens: { token_ids: [1, 2], note: WORD },
  response: { input: WORD },
  message: { messages: MESSAGES, max_tokens: 9 },
  invocation: { messages: MESSAGES },
};
const CHOICES = {
  id: 'engine-1',
  model: 'tiny',
  choices: [{ index: 0, message: { role: 'assistant', content: SAID }, text: SAID, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 4 },
};
const RESPONSE = {
  ...{ id: 'resp_engine', object: 'response', status: 'completed', model: 'tiny' },
  output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: SAID }] }],
  usage: { input_tokens: 3, output_tokens: 4 },
};
const ANSWERS: Record<NonNullable<EngineRoute['generates']>, object> = {
  chat: CHOICES,
  chats: CHOICES,
  text: CHOICES,
  tokens: CHOICES,
  response: RESPONSE,
  message: {
    id: 'msg',
    role: 'assistant',
    content: [{ type: 'text', text: SAID }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 3, output_tokens: 4 },
  },
  invocation: CHOICES,
};
const CHAT_EVENTS = [
  { id: 'engine-1', choices: [{ index: 0, delta: { role: 'assistant', content: SAID.slice(0, 4) } }] },
  { id: 'engine-1', choices: [{ index: 0, delta: { content: SAID.slice(4) }, finish_reason: 'stop' }] },
  { id: 'engine-1', choices: [], usage: { prompt_tokens: 3, completion_tokens: 4 } },
];
const STREAMS: Partial<Record<NonNullable<EngineRoute['generates']>, object[]>> = {
  chat: CHAT_EVENTS,
  text: CHAT_EVENTS.map(({ choices, ...event }) => ({
    ...event,
    choices: choices.map(({ delta, ...choice }) => ({ ...choice, text: delta.content })),
  })),
  response: [{ type: 'response.completed', sequence_number: 0, response: RESPONSE }],
  message: [
    {
      type: 'message_start',
      message: { id: 'msg', role: 'assistant', content: [], usage: { input_tokens: 3 } },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: SAID } },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } },
    { type: 'message_stop' },
  ],
};

const sockets: WebSocket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.terminate();
});

interface Record_ extends Record<string, unknown> {
  'worker_vllm.job.id': string;
}

/** A queue with a worker, and how it is asked. */
async function queueWithWorker() {
  const queue = road.newQueue();
  const ask = async (token: string, address: string, sent?: object | FormData, method = 'POST') =>
    await fetch(road.url + address, {
      headers: {
        authorization: `Bearer ${token}`,
        'x-queue-id': queue,
        // As curl sends JSON.
        ...(!(sent instanceof FormData) && { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(sent && { method, body: sent instanceof FormData ? sent : JSON.stringify(sent) }),
      ...(method === 'DELETE' && { method }),
    });
  const worker = await new RawWorker(road.url, 'worker').connect(queue);
  await worker.register('w', { capacity: 4, instance: { id: 'w', models: ['tiny'], boot_id: 'w' } });
  const records = async (query = ''): Promise<Record_[]> => {
    const text = await (await ask('operator', `/api/kept-requests/records${query}`)).text();
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record_);
  };
  return { queue, ask, worker, records };
}

/** Answers a job as an engine would, on its stream and as its result. */
function settle(worker: RawWorker, job: JobFrame, answer: object, events?: object[]): void {
  const isRunpod = job.job_type === 'runpod';
  const { job_id, fence_token, account, stream_id: stream } = job;
  const text = events
    ? `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`
    : JSON.stringify(answer);
  const type = events ? 'text/event-stream' : 'application/json';
  if (stream !== undefined) {
    const data = new TextEncoder().encode(text);
    worker.answer(
      { type: 'head', stream, head: { status: 200, headers: { 'content-type': type } } },
      { type: 'bytes', stream, offset: 0, data },
      { type: 'end', stream, size: data.byteLength },
    );
  }
  const response = { status: 200, content_type: type, body: events ? text : answer };
  worker.send({
    type: 'job_result',
    job_id,
    fence_token,
    account,
    result: isRunpod ? { job_type: 'runpod', output: [answer] } : { response },
  });
}

/** Waits for the one record, and checks that it has what was asked and answered. */
async function expectOne(records: () => Promise<Record_[]>, more: object = {}): Promise<Record_> {
  await until(async () => (await records()).length > 0, 'it is kept');
  const [record, ...others] = await records();
  expect(others).toEqual([]);
  const { 'gen_ai.input.messages': input, 'worker_vllm.request.body': body } = record!;
  expect(JSON.stringify(input ?? body)).toContain(WORD);
  const { 'gen_ai.output.messages': output, 'worker_vllm.response.body': answer } = record!;
  expect(JSON.stringify(output ?? answer)).toContain(SAID);
  expect(record).toMatchObject({
    'worker_vllm.tenant': 'team',
    'worker_vllm.token': 'app',
    'worker_vllm.worker.id': 'w',
    'worker_vllm.outcome': 'succeeded',
    ...more,
  });
  return record!;
}

const generating = ENGINE_ROUTES.filter(({ generates }) => generates !== null);
const ROADS = ['live', 'stream', 'stored job', 'job socket', 'RunPod', 'batch'] as const;
const CASES = generating.flatMap(({ path, generates }) =>
  ROADS.flatMap((of) =>
    of === 'stream' && !STREAMS[generates!] ? [] : [{ path, generates: generates!, of }],
  ),
);

describe.each(CASES)('$path by $of', ({ path, generates, of }) => {
  it('leaves one record', async () => {
    const { ask, worker, records, queue } = await queueWithWorker();
    const body = { model: 'tiny', ...BODIES[generates] };
    const job = {
      job_type: 'engine_request',
      config_id: 'cfg',
      payload: { path, body: JSON.stringify(body) },
    };
    let answered: Promise<Response> | null = null;
    if (of === 'live') answered = ask('app', path, body);
    if (of === 'stream') answered = ask('app', path, { ...body, stream: true });
    if (of === 'stored job') await ask('app', '/api/jobs', job);
    if (of === 'RunPod')
      await ask('app', '/v2/cfg/run', { input: { openai_route: path, openai_input: body } });
    if (of === 'job socket') {
      const socket = new WebSocket(`${road.url.replace('http', 'ws')}/api/jobs/socket?queue_id=${queue}`, {
        headers: { authorization: 'Bearer app' },
      });
      sockets.push(socket);
      await once(socket, 'open');
      socket.send(JSON.stringify({ type: 'submit', jobs: [{ ...job, id: crypto.randomUUID() }] }));
    }
    if (of === 'batch') {
      const form = new FormData();
      form.set('purpose', 'batch');
      const line = { custom_id: 'a', method: 'POST', url: path, body };
      form.set('file', new Blob([JSON.stringify(line)]), 'lines.jsonl');
      const file = (await (await ask('app', '/v1/files', form)).json()) as { id: string };
      const made = await ask('app', '/v1/batches', {
        ...{ input_file_id: file.id, endpoint: path, completion_window: '24h' },
      });
      // Batches take some of the routes.
      if (made.status === 400) return;
    }
    const frame = await worker.job();
    settle(worker, frame, ANSWERS[generates], of === 'stream' ? STREAMS[generates]! : undefined);
    if (answered) await (await answered).text();
    const record = await expectOne(records, { 'url.path': path });
    expect(record['worker_vllm.job.id']).toBe(frame.job_id);
    expect(record['worker_vllm.road']).toBe(answered ? 'live' : 'job');
    if (generates !== 'chats' && generates !== 'tokens')
      expect(record).toMatchObject({
        'gen_ai.request.model': 'tiny',
        'gen_ai.response.finish_reasons': ['stop'],
        'gen_ai.usage.input_tokens': 3,
        'gen_ai.usage.output_tokens': 4,
      });
  });
});

describe('a response', () => {
  it.each([
    ['that is waited for', {}],
    ['as a stream', { stream: true }],
    ['in the background', { background: true }],
    ['in the background, as a stream', { background: true, stream: true }],
  ])(
    '%s leaves one record, which goes with it',
    async (_, more: { stream?: boolean; background?: boolean }) => {
      const { ask, worker, records } = await queueWithWorker();
      const answered = ask('app', '/v1/responses', { model: 'tiny', input: WORD, ...more });
      settle(worker, await worker.job(), RESPONSE, more.stream ? STREAMS.response! : undefined);
      const text = await (await answered).text();
      await expectOne(records);
      const id = /"id":\s*"(resp[^"]*)"/.exec(text)![1]!;
      await until(
        async () => (await ask('app', `/v1/responses/${id}`, undefined, 'DELETE')).status === 200,
        'it is deleted',
      );
      expect(await records()).toEqual([]);
    },
  );
});

describe('kept requests', () => {
  it('have embeddings too', async () => {
    const { ask, worker, records } = await queueWithWorker();
    const answered = ask('app', '/v1/embeddings', { model: 'tiny', input: [WORD] });
    settle(worker, await worker.job(), { data: [{ index: 0, embedding: [0.5] }], model: SAID });
    await (await answered).text();
    await expectOne(records, { 'gen_ai.operation.name': 'embeddings' });
  });

  it('have what was refused and what a caller left, and not those of a token that is not kept', async () => {
    const { ask, records } = await queueWithWorker();
    await (await ask('app', '/v1/chat/completions', { model: 'absent', messages: MESSAGES })).text();
    await (await ask('quiet', '/v1/chat/completions', { model: 'absent', messages: MESSAGES })).text();
    await until(async () => (await records()).length > 0, 'it is kept');
    const [record, ...others] = await records();
    expect(others).toEqual([]);
    expect(record).toMatchObject({ 'worker_vllm.outcome': 'failed', 'error.type': '404' });
  });

  it('do not have what settles after its token, which keeps nothing, was revoked', async () => {
    const { ask, worker, records } = await queueWithWorker();
    const made = await ask('operator', '/api/tokens', {
      ...{ name: crypto.randomUUID(), scopes: ['submit'], tenant: 'team', keep: false },
    });
    const { name, token } = (await made.json()) as { name: string; token: string };
    const job = {
      job_type: 'engine_request',
      payload: {
        path: '/v1/chat/completions',
        body: JSON.stringify({ model: 'tiny', messages: MESSAGES }),
      },
    };
    expect((await ask(token, '/api/jobs', job)).status).toBe(201);
    const quiet = await worker.job();
    expect((await ask('operator', `/api/tokens/${name}`, undefined, 'DELETE')).status).toBe(200);
    await until(async () => (await ask(token, '/v1/models')).status === 401, 'it is revoked');
    settle(worker, quiet, CHOICES);
    await (await ask('operator', `/api/jobs/${quiet.job_id}?wait=20`)).text();
    await ask('app', '/api/jobs', job);
    settle(worker, await worker.job(1), CHOICES);
    await expectOne(records);
  });

  it('are erased by id and by tenant, on disk too, and a late record of theirs is not kept', async () => {
    const { ask, worker, records } = await queueWithWorker();
    const word = `${WORD}-${crypto.randomUUID()}`;
    const chat = { model: 'tiny', messages: [{ role: 'user', content: word }] };
    const one = ask('app', '/v1/chat/completions', chat);
    const first = await worker.job();
    settle(worker, first, CHOICES);
    await (await one).text();
    const late = ask('app', '/v1/chat/completions', chat);
    const second = await worker.job(1);
    await until(async () => (await records()).length === 1, 'one is kept');
    const erase = async (query: string) =>
      await (await ask('operator', `/api/kept-requests?${query}`, undefined, 'DELETE')).json();
    expect(await erase(`id=${first.job_id}`)).toEqual({ erased: 1 });
    expect(await records()).toEqual([]);
    expect(await erase('tenant=team')).toEqual({ erased: 0 });
    settle(worker, second, CHOICES);
    await (await late).text();
    expect(await records()).toEqual([]);
    const audit = (await (await ask('operator', '/api/audit?action=kept_requests.erase')).json()) as {
      entries: { target: string }[];
    };
    expect(audit.entries.map(({ target }) => target)).toEqual(
      expect.arrayContaining(['tenant team', first.job_id]),
    );
    // The log of the database is written into it when the process ends.
    await road.restart(SETTINGS);
    expect(filesWith(road.stateDir, word)).toEqual([]);
  });

  it('are for admins alone', async () => {
    const { ask } = await queueWithWorker();
    for (const path of ['/api/kept-requests', '/api/kept-requests/records'])
      expect((await ask('app', path)).status).toBe(403);
    expect((await ask('app', '/api/kept-requests?tenant=team', undefined, 'DELETE')).status).toBe(403);
    expect((await ask('operator', '/api/kept-requests', undefined, 'DELETE')).status).toBe(400);
  });
});

it.each([
  ['GET', '?limit=3', 'limit'],
  ['GET', '/records?limit=3', 'limit'],
  ['GET', '/records?since=yesterday', 'since: expected a time'],
  ['GET', '/records?until=', 'until: expected a time'],
  ['GET', '/records?since=200&until=100', 'since: expected a time before until'],
  ['GET', '/records?tenant=', 'tenant: expected a name'],
  ['DELETE', '?tenant=', 'give either tenant or id'],
  ['DELETE', '?tenant=team&id=req_1', 'give either tenant or id'],
  ['DELETE', '?tenants=team', 'tenants'],
])('%s /api/kept-requests%s is refused by name', async (method, query, message) => {
  const headers = { authorization: 'Bearer operator' };
  const answer = await fetch(`${road.url}/api/kept-requests${query}`, { method, headers });
  const { error } = (await answer.json()) as { error: { message: string } };
  expect([answer.status, error.message]).toEqual([400, expect.stringContaining(message)]);
});

describe('with keeping off', () => {
  it('nothing of a request is on the disk, whatever its token says', async () => {
    const tokens = JSON.parse(SETTINGS.TOKENS) as { name: string; keep?: boolean }[];
    for (const token of tokens) if (token.name === 'app') token.keep = true;
    await road.restart({ TOKENS: JSON.stringify(tokens) });
    const { ask, worker, records } = await queueWithWorker();
    const word = `${WORD}-${crypto.randomUUID()}`;
    const chat = { model: 'tiny', messages: [{ role: 'user', content: word }] };
    const answered = ask('app', '/v1/chat/completions', chat);
    settle(worker, await worker.job(), CHOICES);
    expect(await (await answered).text()).toContain(SAID);
    expect(await records()).toEqual([]);
    await road.restart(SETTINGS);
    expect(filesWith(road.stateDir, word)).toEqual([]);
  });
});
