import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { ANSWERED_FIRST } from '../support/raw-worker.ts';
import {
  engineRunning,
  isDeployed,
  type QueueProcess,
  readyWorker,
  startQueue,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';

/** Every inference route by the road is as it is at the engine: status, content type and body, byte for byte. */
let queue: QueueProcess;
let worker: WorkerProcess;

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_MODEL_ALIASES: 'gpt-4o=tiny,whisper-1=tiny' } });
  // Paced, so that what is to be caught at work takes long enough.
  worker = await readyWorker(queue.url, 'w', { engineArgs: '--inter-token-latency-ms 5' });
});
afterAll(tearDown);

const JSON_TYPE = { 'content-type': 'application/json' };
const messages = [{ role: 'user', content: 'Say hello to the road: größer 🙂' }];

interface Asked {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
}

async function ask(url: string, path: string, { method = 'POST', headers = JSON_TYPE, body }: Asked) {
  const response = await fetch(url + path, {
    method,
    headers,
    redirect: 'manual',
    ...(body === undefined ? {} : { body }),
  });
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    body: Buffer.from(await response.arrayBuffer()),
    headers: response.headers,
  };
}

/** Bodies without what each answer has of its own: random ids and times, and the blanks before one that took long. */
function common(body: Buffer): string {
  return (
    body
      .toString('latin1')
      .replace(/^\n+/, '')
      .replace(/"(id|item_id)":\s*"[^"]*"/g, '"$1":"…"')
      .replace(/"(created|created_at)":\s*\d+/g, '"$1":0')
      // The queue's own fields of a Response object, which the engine does not know.
      .replace(/"metadata":(?:null|\{\})/g, '"metadata":…')
      .replace(/,"store":true,"conversation":null/g, '')
      // A field of one that vLLM leaves out where there is no error.
      .replace(/,"error":null/g, '')
      // The engine names the end of every response "completed", the queue names it as its status.
      .replace(/response\.(?:completed|incomplete)/g, 'response.…')
  );
}

async function both(path: string, asked: Asked) {
  const direct = await ask(worker.engineUrl, path, asked);
  const headers = { ...(asked.headers ?? JSON_TYPE), ...ANSWERED_FIRST };
  const through = await ask(queue.url, path, { ...asked, headers });
  return { direct, through };
}

async function expectSame(path: string, asked: Asked, status = 200) {
  const { direct, through } = await both(path, asked);
  expect({ path, status: through.status, type: through.type, body: common(through.body) }).toEqual({
    path,
    status: direct.status,
    type: direct.type,
    body: common(direct.body),
  });
  expect(through.status).toBe(status);
  return through;
}

const post = (body: object): Asked => ({ body: JSON.stringify({ model: 'tiny', ...body }) });

describe('routes of the engine', () => {
  const inputs = { input: ['one', 'two'] };
  const pair = { text_1: 'a', text_2: ['b', 'c'] };
  const documents = { query: 'q', documents: ['a', 'b', 'c'], top_n: 2 };
  const chat = { messages, max_tokens: 8, seed: 1 };
  it.each([
    ['/v1/chat/completions', chat],
    ['/v1/chat/completions', { ...chat, stream: true, stream_options: { include_usage: true } }],
    ['/v1/chat/completions/batch', { ...chat, messages: [messages, messages] }],
    ['/v1/completions', { prompt: 'hello', max_tokens: 8, seed: 1 }],
    ['/v1/messages', { messages, max_tokens: 8 }],
    ['/v1/messages', { messages, max_tokens: 8, stream: true }],
    ['/v1/messages/count_tokens', { messages }],
    ['/v1/responses', { input: 'hello', max_output_tokens: 8 }],
    ['/v1/responses', { input: 'hello', max_output_tokens: 8, stream: true }],
    ['/invocations', chat],
    ['/v1/embeddings', inputs],
    ['/v2/embed', { texts: ['one'] }],
    ['/pooling', inputs],
    ['/v1/pooling', inputs],
    ['/classify', inputs],
    ['/v1/classify', inputs],
    ['/score', pair],
    ['/v1/score', pair],
    ['/rerank', documents],
    ['/v1/rerank', documents],
    ['/v2/rerank', documents],
    ['/tokenize', { prompt: 'größer 🙂', return_token_strs: true }],
    ['/v1/tokenize', { messages }],
    ['/detokenize', { tokens: [50331648 + 0x616263] }],
    ['/v1/detokenize', { tokens: [50331648 + 0x616263] }],
    ['/generative_scoring', { query: 'q', items: ['a', 'b'] }],
    ['/v1/images/generations', { prompt: 'a road' }],
    ['/v1/audio/speech', { input: 'hello', voice: 'none', response_format: 'mp3' }],
  ])('answer POST %s as directly: %j', async (path, body) => {
    await expectSame(path, post(body));
  });

  it.each([
    ['GET', '/version'],
    ['GET', '/ping'],
    ['POST', '/ping'],
  ])('answer %s %s without a body', async (method, path) => {
    await expectSame(path, { method, headers: {} });
  });

  it('that the engine lacks are its own 404', async () => {
    await expectSame('/v1/moderations', post({ input: 'x' }), 404);
  });

  it('that the engine has not been started with are its own 403', async () => {
    await expectSame('/inference/v1/generate', post({ token_ids: [1] }), 403);
  });

  it('give the engine’s own errors', async () => {
    await expectSame('/tokenize', post({}), 400);
    await expectSame('/v1/messages', post({ messages: [] }), 400);
    await expectSame('/v1/chat/completions', post({ messages, temperature: -1 }), 400);
  });

  it('may be asked with a slash at the end', async () => {
    expect((await ask(queue.url, '/tokenize/?x=1', post({ prompt: 'a' }))).status).toBe(200);
    expect((await ask(queue.url, '/v1/models/', { method: 'GET', headers: {} })).status).toBe(200);
  });

  it('are asked with their own methods only', async () => {
    const { status, headers } = await ask(queue.url, '/tokenize', { method: 'GET', headers: {} });
    expect([status, headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('do not include realtime sessions', async () => {
    const { status, body } = await ask(queue.url, '/v1/realtime?model=tiny', { method: 'GET', headers: {} });
    expect([status, body.toString()]).toEqual([501, expect.stringContaining('realtime_not_supported')]);
  });

  it('do not include those that administer the engine', async () => {
    for (const path of ['/sleep', '/load', '/v1/load_lora_adapter', '/collective_rpc', '/simulator/faults']) {
      for (const method of ['GET', 'POST']) {
        expect([path, (await ask(queue.url, path, { method, headers: {} })).status]).toEqual([path, 404]);
      }
    }
    // Under this name the queue has numbers of its own.
    expect(await (await fetch(`${queue.url}/metrics`)).text()).not.toContain('vllm:');
  });
});

describe('bodies', () => {
  const BOUNDARY = 'road-7';
  const file = Buffer.from(Array.from({ length: 70_000 }, (_, at) => (at * 7 + (at >> 8)) % 256));
  const form = (fields: Record<string, string>): Asked => {
    const part = (headers: string) =>
      Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; ${headers}\r\n\r\n`);
    const parts = Object.entries(fields).flatMap(([name, value]) => [
      part(`name="${name}"`),
      Buffer.from(`${value}\r\n`),
    ]);
    const body = Buffer.concat([
      part('name="file"; filename="speech.wav"\r\nContent-Type: audio/wav'),
      file,
      Buffer.from('\r\n'),
      ...parts,
      Buffer.from(`--${BOUNDARY}--\r\n`),
    ]);
    const headers = { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` };
    return { headers, body: new Uint8Array(body) };
  };

  it.each(['/v1/audio/transcriptions', '/v1/audio/translations'])(
    'that are forms reach %s byte for byte',
    async (path) => {
      const { body } = await expectSame(path, form({ model: 'tiny', language: 'de' }));
      expect(JSON.parse(body.toString()).text).toMatch(/^7\d{4} bytes were heard$/);
    },
  );

  it('that are forms may be answered with plain text', async () => {
    const { type } = await expectSame(
      '/v1/audio/transcriptions',
      form({ model: 'tiny', response_format: 'text' }),
    );
    expect(type).toBe('text/plain; charset=utf-8');
  });

  it('that are forms name an alias, the default model or one that is not there', async () => {
    const transcribe = (model: string) => ask(queue.url, '/v1/audio/transcriptions', form({ model }));
    for (const model of ['whisper-1', 'default', 'cfg']) expect((await transcribe(model)).status).toBe(200);
    const missing = await transcribe('huge');
    expect([missing.status, missing.body.toString()]).toEqual([
      404,
      expect.stringContaining('model_not_found'),
    ]);
  });

  it('that are not UTF-8 are passed on as they are', async () => {
    const before = Buffer.from('{"model":"tiny","prompt":"a');
    const body = new Uint8Array(Buffer.concat([before, Buffer.from([0xff, 0xfe]), Buffer.from('b"}')]));
    await expectSame('/tokenize', { body });
  });

  it('name a model by its alias, and are answered with the engine’s own name', async () => {
    const { body } = await ask(
      queue.url,
      '/v1/chat/completions',
      post({ model: 'gpt-4o', messages, max_tokens: 2 }),
    );
    expect(JSON.parse(body.toString()).model).toBe('tiny');
  });

  it('with parameters by which engines hand caches to each other are refused', async () => {
    for (const name of ['kv_transfer_params', 'ec_transfer_params']) {
      const { status, body } = await ask(
        queue.url,
        '/v1/completions',
        post({ prompt: 'a', [name]: { x: 1 } }),
      );
      expect([status, body.toString()]).toEqual([400, expect.stringContaining(name)]);
      const payload = { path: '/v1/completions', body: JSON.stringify({ [name]: { x: 1 } }) };
      const job = { job_type: 'engine_request', config_id: 'cfg', payload };
      expect((await ask(queue.url, '/api/jobs', { body: JSON.stringify(job) })).status).toBe(400);
      const chat = { job_type: 'chat_completion', config_id: 'cfg', payload: { messages, [name]: {} } };
      expect((await ask(queue.url, '/api/jobs', { body: JSON.stringify(chat) })).status).toBe(400);
    }
  });

  it('of stored jobs may be bytes, and so may their results', async () => {
    const { headers, body } = form({ model: 'default' });
    const upload = {
      path: '/v1/audio/transcriptions',
      content_type: headers!['content-type'],
      body_base64: Buffer.from(body as Uint8Array).toString('base64'),
    };
    const speech = { path: '/v1/audio/speech', body: JSON.stringify({ model: 'tiny', input: 'hello' }) };
    const run = async (payload: object) => {
      const job = { job_type: 'engine_request', config_id: 'cfg', payload };
      const { id } = JSON.parse(
        (await ask(queue.url, '/api/jobs', { body: JSON.stringify(job) })).body.toString(),
      );
      const { body } = await ask(queue.url, `/api/jobs/${id}?wait=60`, { method: 'GET', headers: {} });
      return JSON.parse(body.toString()).result.response;
    };
    expect((await run(upload)).body.text).toMatch(/bytes were heard/);
    const { content_type, body: none, body_base64 } = await run(speech);
    expect([content_type, none]).toEqual(['audio/wav', null]);
    const direct = await ask(worker.engineUrl, '/v1/audio/speech', post({ input: 'hello' }));
    expect(Buffer.from(body_base64, 'base64').equals(direct.body)).toBe(true);
  });
});

describe('the id of a request', () => {
  it('reaches the engine in the header or in the body, and comes back', async () => {
    const chat = post({ messages, max_tokens: 1 });
    const named = await ask(queue.url, '/v1/chat/completions', {
      ...chat,
      headers: { ...JSON_TYPE, 'X-Request-Id': 'mine-1' },
    });
    expect(JSON.parse(named.body.toString()).id).toBe('chatcmpl-mine-1');
    expect(named.headers.get('x-request-id')).toBe('mine-1');
    const inBody = await ask(
      queue.url,
      '/v1/chat/completions',
      post({ messages, max_tokens: 1, request_id: 'mine-2' }),
    );
    expect(JSON.parse(inBody.body.toString()).id).toBe('chatcmpl-mine-2');
  });
});

describe.skipIf(isDeployed)('a caller that hangs up', () => {
  it('during a route that is not streamed frees the engine', async () => {
    const hangUp = new AbortController();
    const answer = fetch(`${queue.url}/invocations`, {
      method: 'POST',
      headers: JSON_TYPE,
      body: JSON.stringify({ model: 'tiny', messages, max_tokens: 30_000, ignore_eos: true }),
      signal: hangUp.signal,
    }).catch(() => 'hung up');
    await until(async () => (await engineRunning(worker.engineUrl)) === 1, 'the engine runs it');
    hangUp.abort();
    await answer;
    await until(async () => (await engineRunning(worker.engineUrl)) === 0, 'the engine runs nothing');
  });
});
