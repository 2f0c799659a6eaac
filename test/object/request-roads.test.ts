import OpenAI, { APIError, toFile } from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { JobConnection } from '../../src/client/index.ts';
import { ANY_ENDPOINT, PING_TEXT } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/**
 * All roads by which a caller reaches an engine × all that a body may say: what its token may not ask for reaches no
 * worker, wherever it stands and however it is written; what it may ask for does.
 */

const entry = (name: string, more: object = {}) => tokenEntry(`wv_${name}`, ['submit'], { name, ...more });
/** Of the gateway, by which jobs and batches are submitted. */
const OWN_ROUTES = ['/api/jobs*', '/v2/own/*', '/v1/files', '/v1/batches*'];
const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('wv_worker', ['worker'], { name: 'worker' }),
    entry('bound', { models: ['own'] }),
    entry('free'),
    entry('vectors', { routes: [...OWN_ROUTES, '/v1/embeddings'] }),
    entry('chats', { routes: [...OWN_ROUTES, '/v1/chat/completions'] }),
    entry('jobs', { routes: OWN_ROUTES }),
    entry('limited', { limits: { models: { own: { running: 1 } } } }),
  ]),
});

const CHAT = '/v1/chat/completions';
const HONEST = { model: 'own', messages: [{ role: 'user', content: 'größer 🙂' }], max_tokens: 5 };
type Body = Record<string, unknown>;

interface Answer {
  status: number;
  text: string;
}

const connections: JobConnection[] = [];
afterEach(() => {
  for (const connection of connections.splice(0)) connection.close();
});

/** One queue for each road, with a worker of one pool that serves two models. */
async function started(): Promise<{ queueId: string; worker: RawWorker }> {
  const queueId = road.newQueue();
  const worker = await new RawWorker(road.url, 'wv_worker').connect(queueId);
  const instance = { id: 'w', models: ['own', 'other'], boot_id: queueId };
  await worker.register('w', { capacity: 64, instance });
  return { queueId, worker };
}

async function post(
  queueId: string,
  path: string,
  body: string | Uint8Array<ArrayBuffer> | FormData,
  type?: string,
  token = 'bound',
): Promise<Answer> {
  const headers = {
    authorization: `Bearer wv_${token}`,
    'x-queue-id': queueId,
    ...REFUSED_FIRST,
    ...(type && { 'content-type': type }),
  };
  const response = await fetch(road.url + path, { method: 'POST', headers, body });
  return { status: response.status, text: await response.text() };
}

const JSON_TYPE = 'application/json';
const job = (job_type: string, payload: object) => ({ job_type, config_id: 'cfg', payload });
const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64');

/** Each sends a body, given as the text of its JSON. */
type Send = (queueId: string, body: string, token: string) => Promise<Answer>;
const ROADS: Record<string, Send> = {
  'a job: engine_request with text': (q, body, token) =>
    post(q, '/api/jobs', JSON.stringify(job('engine_request', { path: CHAT, body })), JSON_TYPE, token),
  'a job: engine_request with base64': (q, body, token) => {
    const payload = { path: CHAT, body_base64: base64(body), content_type: 'application/octet-stream' };
    return post(q, '/api/jobs', JSON.stringify(job('engine_request', payload)), JSON_TYPE, token);
  },
  'a job: engine_request in a file of its own': (q, body, token) => {
    const long = `${body.slice(0, -1)},"user":"${'x'.repeat(400_000)}"}`;
    return post(
      q,
      '/api/jobs',
      JSON.stringify(job('engine_request', { path: CHAT, body: long })),
      JSON_TYPE,
      token,
    );
  },
  'a job: chat_completion': (q, body, token) =>
    post(q, '/api/jobs', JSON.stringify(job('chat_completion', JSON.parse(body))), JSON_TYPE, token),
  'a job: runpod with openai_input': (q, body, token) =>
    post(
      q,
      '/api/jobs',
      JSON.stringify(job('runpod', { model: 'own', input: { openai_input: JSON.parse(body) } })),
      JSON_TYPE,
      token,
    ),
  'a job: runpod with openai_input as text': (q, body, token) =>
    post(
      q,
      '/api/jobs',
      JSON.stringify(job('runpod', { model: 'own', input: { openai_input: body } })),
      JSON_TYPE,
      token,
    ),
  'an array of jobs': async (q, body, token) => {
    const jobs = [job('engine_request', { path: CHAT, body })];
    const { status, text } = await post(q, '/api/jobs', JSON.stringify(jobs), JSON_TYPE, token);
    const [one] = JSON.parse(text) as { error?: { status: number } }[];
    return { status: one?.error?.status ?? status, text };
  },
  'lines of jobs': async (q, body, token) => {
    const line = `${JSON.stringify(job('runpod', { input: { route: CHAT, body } }))}\n`;
    const { status, text } = await post(q, '/api/jobs', line, 'application/x-ndjson', token);
    const one = JSON.parse(text) as { error?: { status: number } };
    return { status: one.error?.status ?? status, text };
  },
  'RunPod’s run with openai_input': (q, body, token) =>
    post(
      q,
      '/v2/own/run',
      JSON.stringify({ input: { openai_route: CHAT, openai_input: JSON.parse(body) } }),
      JSON_TYPE,
      token,
    ),
  'RunPod’s run with openai_input as text': (q, body, token) =>
    post(
      q,
      '/v2/own/run',
      JSON.stringify({ input: { openai_route: CHAT, openai_input: body } }),
      JSON_TYPE,
      token,
    ),
  'RunPod’s run with body': (q, body, token) =>
    post(
      q,
      '/v2/own/run',
      JSON.stringify({ input: { route: CHAT, body: JSON.parse(body) } }),
      JSON_TYPE,
      token,
    ),
  'RunPod’s run with body as text': (q, body, token) =>
    post(q, '/v2/own/run', JSON.stringify({ input: { route: CHAT, body } }), JSON_TYPE, token),
  'RunPod’s run with sampling_params': (q, body, token) => {
    const { messages, ...sampling_params } = JSON.parse(body) as Body;
    return post(q, '/v2/own/run', JSON.stringify({ input: { messages, sampling_params } }), JSON_TYPE, token);
  },
  'the job socket': async (queueId, body, token) => {
    const connection = new JobConnection({ url: road.url, queueId, token: `wv_${token}` });
    connections.push(connection);
    const submitted = connection.run({
      ...job('engine_request', { path: CHAT, body }),
      id: crypto.randomUUID(),
    } as never);
    const refused = await Promise.race([
      submitted.then(() => null).catch((error: { status?: number; message: string }) => error),
      // Nobody answers it: it was taken.
      until(async () => (await listed(queueId, token)) > 0, 'it is stored').then(() => null),
    ]);
    return { status: refused === null ? 201 : (refused.status ?? 400), text: refused?.message ?? '' };
  },
  'a line of a batch': batchLine(CHAT),
  'a line of a batch for any route': batchLine(ANY_ENDPOINT),
};

function batchLine(endpoint: string): Send {
  return async (queueId, body, token) => {
    const client = new OpenAI({
      baseURL: `${road.url}/v1`,
      apiKey: `wv_${token}`,
      defaultHeaders: { 'x-queue-id': queueId },
      maxRetries: 0,
    });
    const line = `{"custom_id":"a","method":"POST","url":"${CHAT}","body":${body}}`;
    const file = await client.files.create({
      file: await toFile(Buffer.from(line), 'in.jsonl'),
      purpose: 'batch',
    });
    const asked = { input_file_id: file.id, endpoint, completion_window: '24h' } as never;
    const made = await client.batches.create(asked).catch((error: APIError) => error);
    if (made instanceof APIError) return { status: made.status ?? 0, text: made.message };
    const { id } = made;
    const batch = await until(async () => {
      const now = await client.batches.retrieve(id);
      const isOver = ['failed', 'completed'].includes(now.status);
      return isOver || (await listed(queueId, token)) > 0 ? now : null;
    }, 'the line is given out or refused');
    return {
      status: ['failed', 'completed'].includes(batch.status) ? 400 : 201,
      text: JSON.stringify(batch),
    };
  };
}

/** Jobs that a queue has taken. */
async function listed(queueId: string, token: string): Promise<number> {
  const headers = { authorization: `Bearer wv_${token}`, 'x-queue-id': queueId };
  const answer = await fetch(`${road.url}/api/jobs`, { headers });
  return ((await answer.json()) as { jobs: unknown[] }).jobs.length;
}

/** Bodies that the token may not send. */
const REFUSED: readonly Body[] = [
  { model: 'other' },
  { model: undefined },
  { priority: -5 },
  { priority: '-5' },
  { kv_transfer_params: { do_remote_prefill: true, remote_host: 'evil.example' } },
  { vllm_xargs: { ec_transfer_params: 'x' } },
  { sampling_params: { extra_args: { kv_transfer_params: {} } } },
  { disaggregate_info: { prefill_ip: '10.0.0.1' } },
  { lora_path: 'other' },
  { lora: [{ id: 1, scale: 1 }] },
  { priority: [-5] },
  { stream: 1 },
  { stream: 'true' },
  { model: 5 },
];

describe.each(Object.entries(ROADS))('%s', (name, send) => {
  it('carries what its token may ask for', async () => {
    const { queueId, worker } = await started();
    expect((await send(queueId, JSON.stringify(HONEST), 'bound')).status).toBeLessThan(300);
    await until(() => worker.frames.some(({ type }) => type === 'job'), 'the worker is given it');
  });

  it('carries nothing else', async () => {
    const { queueId, worker } = await started();
    for (const fields of REFUSED) {
      // An endpoint of RunPod's form is a model, for a body that names none.
      if ('model' in fields && fields.model === undefined && /RunPod’s|runpod/.test(name)) continue;
      const { status, text } = await send(queueId, JSON.stringify({ ...HONEST, ...fields }), 'bound');
      expect([400, 403], `${JSON.stringify(fields)}: ${text}`).toContain(status);
      // The queue takes a worker that is silent for too long for gone.
      worker.send(PING_TEXT);
    }
    // What was let through would have been given out before this.
    const next = JSON.stringify(job('chat_completion', HONEST));
    const taken = await post(queueId, '/api/jobs', next, JSON_TYPE, 'free');
    expect(taken.status, taken.text).toBe(201);
    const isJob = ({ type }: { type: string }) => type === 'job';
    await until(() => worker.frames.some(isJob), 'the worker is given the next one');
    expect(worker.frames.filter(isJob)).toHaveLength(1);
  });

  it('asks an engine for no other path than its token may', async () => {
    const { queueId } = await started();
    const refused = await send(queueId, JSON.stringify(HONEST), 'vectors');
    expect([400, 403], refused.text).toContain(refused.status);
    expect((await send(queueId, JSON.stringify(HONEST), 'chats')).status).toBeLessThan(300);
    // Its routes name none of an engine's.
    expect((await send(queueId, JSON.stringify(HONEST), 'jobs')).status).toBeLessThan(300);
  });
});

describe('a request whose caller waits', () => {
  const written = JSON.stringify({ ...HONEST, model: 'other', kv_transfer_params: { a: 'ü' } });
  const utf16 = Buffer.from(written, 'utf16le');

  it.each<[string, string | Uint8Array<ArrayBuffer>, string]>([
    ...REFUSED.map((fields) => {
      const body = JSON.stringify({ ...HONEST, ...fields });
      return [`of JSON with ${JSON.stringify(fields)}`, body, JSON_TYPE] as [string, string, string];
    }),
    ['of JSON that is called something else', written, 'application/octet-stream'],
    ['of JSON that is called a form', written, 'multipart/form-data; boundary=b'],
    ['of JSON that is called a form of an address', written, 'application/x-www-form-urlencoded'],
    ['in UTF-16', new Uint8Array(utf16), JSON_TYPE],
    ['in UTF-16 with a mark', new Uint8Array(Buffer.concat([Buffer.from([0xff, 0xfe]), utf16])), JSON_TYPE],
    ['behind a byte order mark', `\ufeff${written}`, JSON_TYPE],
  ])('is refused: %s', async (_, body, type) => {
    const { status, text } = await post(road.newQueue(), CHAT, body, type);
    expect([400, 403], text).toContain(status);
  });

  it.each<[string, string]>([
    ['the model twice in one header', 'form-data; name="x"; name="model"'],
    ['a blank in the header', 'form-data; name ="model"'],
    ['two headers', 'form-data; name="x"\r\nContent-Disposition: form-data; name="model"'],
  ])('in a form with %s is refused', async (_, disposition) => {
    const part = (header: string, value: string) =>
      `--b\r\nContent-Disposition: ${header}\r\n\r\n${value}\r\n`;
    const form = `${part('form-data; name="model"', 'own')}${part(disposition, 'other')}--b--\r\n`;
    const type = 'multipart/form-data; boundary=b';
    const { status, text } = await post(road.newQueue(), '/v1/audio/transcriptions', form, type);
    expect([status, text]).toEqual([400, expect.stringContaining('invalid_form')]);
  });
});

describe('a pool that a job names', () => {
  const of = (config_id: string, job_type: string, payload: object) =>
    JSON.stringify({ job_type, config_id, payload });

  it('is none where another one serves the model of a token that is for certain models', async () => {
    const { queueId, worker } = await started();
    const other = await new RawWorker(road.url, 'wv_worker').connect(queueId);
    const instance = { id: 'w2', models: ['secret'], boot_id: 'w2' };
    await other.register('w2', { config_id: 'elsewhere', capacity: 8, instance });
    const base = await new RawWorker(road.url, 'wv_worker').connect(queueId);
    await base.register('w3', { base: true, config_id: 'unnamed' });
    for (const pool of ['elsewhere', 'unnamed']) {
      for (const body of [
        of(pool, 'chat_completion', HONEST),
        of(pool, 'engine_request', { path: CHAT, body: JSON.stringify(HONEST) }),
        of(pool, 'runpod', { model: 'own', input: { messages: HONEST.messages } }),
      ]) {
        const { status, text } = await post(queueId, '/api/jobs', body, JSON_TYPE);
        expect([status, text]).toEqual([404, expect.stringContaining('does not serve the model')]);
      }
    }
    expect((await post(queueId, '/api/jobs', of('cfg', 'chat_completion', HONEST), JSON_TYPE)).status).toBe(
      201,
    );
    await until(
      () => worker.frames.some(({ type }) => type === 'job'),
      'it is given to a worker of its model',
    );
  });

  it('is none that is not known to serve the model of such a token, while no other does either', async () => {
    const queueId = road.newQueue();
    const other = await new RawWorker(road.url, 'wv_worker').connect(queueId);
    const instance = { id: 'w2', models: ['secret'], boot_id: 'w2' };
    await other.register('w2', { config_id: 'elsewhere', capacity: 8, instance });
    const base = await new RawWorker(road.url, 'wv_worker').connect(queueId);
    await base.register('w3', { base: true, config_id: 'unnamed' });
    for (const pool of ['elsewhere', 'unnamed']) {
      const { status, text } = await post(
        queueId,
        '/api/jobs',
        of(pool, 'chat_completion', HONEST),
        JSON_TYPE,
      );
      expect([status, text]).toEqual([404, expect.stringContaining('does not serve the model')]);
    }
    // One without workers may be about to serve it.
    expect((await post(queueId, '/api/jobs', of('empty', 'chat_completion', HONEST), JSON_TYPE)).status).toBe(
      201,
    );
  });

  it('may be one whose workers are away', async () => {
    const { queueId, worker } = await started();
    worker.vanish();
    const { status, text } = await post(
      queueId,
      '/api/jobs',
      of('cfg', 'chat_completion', HONEST),
      JSON_TYPE,
    );
    expect([status, text]).toEqual([201, expect.anything()]);
  });
});

describe('a limit by model', () => {
  it.each<[string, string, object]>([
    ['an engine_request', '/api/jobs', job('engine_request', { path: CHAT, body: JSON.stringify(HONEST) })],
    [
      'a body in base64',
      '/api/jobs',
      job('engine_request', { path: CHAT, body_base64: base64(JSON.stringify(HONEST)) }),
    ],
    ['an input of RunPod’s', '/v2/cfg/run', { input: { openai_input: HONEST } }],
    ['a text in one', '/v2/cfg/run', { input: { route: CHAT, body: JSON.stringify(HONEST) } }],
    ['an input that names no model', '/v2/cfg/run', { input: { prompt: 'Hi' } }],
    ['a chat job that names none', '/api/jobs', job('chat_completion', { messages: HONEST.messages })],
    ['a chat job for whatever there is', '/api/jobs', job('llm_inference', { ...HONEST, model: 'default' })],
  ])('holds for %s, by the model that the engine is asked for', async (_, path, one) => {
    const { queueId, worker } = await started();
    for (let sent = 0; sent < 3; sent++)
      expect((await post(queueId, path, JSON.stringify(one), JSON_TYPE, 'limited')).status).toBeLessThan(300);
    await post(queueId, '/api/jobs', JSON.stringify(job('chat_completion', HONEST)), JSON_TYPE, 'free');
    const types = () => worker.frames.filter(({ type }) => type === 'job').map(({ job_type }) => job_type);
    await until(() => types().length >= 2, 'another token’s job is given out');
    expect(types()).toContain('chat_completion');
    expect(types()).toHaveLength(2);
  });

  it('holds for requests that name none', async () => {
    const { queueId, worker } = await started();
    const body = JSON.stringify({ ...HONEST, model: 'default' });
    const headers = { authorization: 'Bearer wv_limited', 'x-queue-id': queueId, 'content-type': JSON_TYPE };
    const ended = new AbortController();
    const first = fetch(road.url + CHAT, { method: 'POST', headers, body, signal: ended.signal });
    // The body of a response that has begun breaks off too.
    const ending = expect(first.then((response) => response.text())).rejects.toThrow();
    await until(() => worker.frames.some(({ type }) => type === 'job'), 'the first is given out');
    expect((await post(queueId, CHAT, body, JSON_TYPE, 'limited')).status).toBe(429);
    ended.abort();
    await ending;
  });
});
