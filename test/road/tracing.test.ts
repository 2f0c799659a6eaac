import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { FIRST_REQUEST } from '../../src/engine/client/first-answer.ts';
import { type ReceivedSpan, spansOf } from '../support/otlp.ts';
import { until } from '../support/poll.ts';
import type { Child } from '../support/processes.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { bodyOf } from '../support/request-body.ts';
import {
  cli,
  type QueueProcess,
  settled,
  startQueue,
  submit,
  tearDown,
  untilReady,
} from '../support/road.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';
const TRACED = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: 'vendor=1' };
/** Nothing of what is said may be in a span. */
const SECRET = 'a secret of the caller';

let queue: QueueProcess;
let engine: Server;
/** Headers of the requests to the engine. */
let asked: IncomingMessage['headers'][] = [];
/** The engine answers nobody. */
let isStuck = false;
let collector: Receiver;

beforeAll(async () => {
  engine = createServer(async (request, response) => {
    const sent = await bodyOf(request);
    if (sent === null) return;
    const json = (value: unknown) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    if (request.url === '/v1/models') return void json({ object: 'list', data: [{ id: 'tiny' }] });
    if (request.headers['x-request-id'] === FIRST_REQUEST) return void json({ choices: [{ text: 'Hi.' }] });
    if (request.url !== '/v1/chat/completions') return void response.end();
    asked.push(request.headers);
    if (isStuck) return;
    const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
    const { stream, messages } = JSON.parse(sent);
    if (!messages) return void response.writeHead(400).end('{"error":"no messages"}');
    if (!stream) {
      const message = { role: 'assistant', content: 'Hi.' };
      return void json({
        id: 'c1',
        model: 'tiny',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage,
      });
    }
    response.setHeader('content-type', 'text/event-stream');
    const choices = [{ index: 0, delta: { content: 'Hi.' }, finish_reason: 'stop' }];
    response.write(`data: ${JSON.stringify({ id: 'c1', choices })}\n\n`);
    response.end(`data: ${JSON.stringify({ id: 'c1', choices: [], usage })}\n\ndata: [DONE]\n\n`);
  });
  engine.listen(0, '127.0.0.1');
  await once(engine, 'listening');
  queue = await startQueue();
});

afterEach(async () => {
  asked = [];
  isStuck = false;
  for (const worker of workers.splice(0)) {
    worker.kill('SIGTERM');
    await worker.exited;
  }
  await collector?.stop();
});

afterAll(async () => {
  engine.closeAllConnections();
  engine.close();
  await tearDown();
});

const workers: Child[] = [];

async function startWorker(id: string, env: NodeJS.ProcessEnv): Promise<Child> {
  const worker = cli(
    ['work'],
    {
      ENGINE_URL: `http://127.0.0.1:${(engine.address() as AddressInfo).port}`,
      CASOLA_WS_URL: queue.url.replace(/^http/, 'ws'),
      CASOLA_CONFIG_ID: 'cfg',
      CASOLA_INSTANCE_ID: id,
      OTEL_BSP_SCHEDULE_DELAY: '100',
      ...env,
    },
    id,
  );
  workers.push(worker);
  await untilReady(queue.url, id);
  return worker;
}

async function startTracing(id: string, more: NodeJS.ProcessEnv = {}): Promise<Child> {
  collector = await startReceiver();
  return await startWorker(id, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector',
    ...more,
  });
}

function ask(headers: Record<string, string>, more: object = {}): Promise<Response> {
  return fetch(`${queue.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'x-queue-wait': '30', ...headers },
    body: JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: SECRET }], ...more }),
  });
}

async function untilSpans(count: number): Promise<ReceivedSpan[]> {
  return await until(() => {
    const spans = spansOf(collector);
    return spans.length >= count ? spans : null;
  }, `${count} spans`);
}

/** Each span under its parent: `send cfg < POST /v1/chat/completions`. */
function tree(spans: ReceivedSpan[]): string[] {
  const nameOf = (id: string) =>
    id === CALLER ? 'caller' : (spans.find(({ spanId }) => spanId === id)?.name ?? id);
  return spans.map(({ name, parentSpanId }) => `${name} < ${nameOf(parentSpanId)}`).sort();
}

const TREE = [
  'POST /v1/chat/completions < caller',
  'chat tiny < process cfg',
  'process cfg < send cfg',
  'send cfg < POST /v1/chat/completions',
];

it('a request is one trace, from its caller to the engine', async () => {
  await startTracing('plain', { OTEL_SERVICE_NAME: 'gpu', OTEL_RESOURCE_ATTRIBUTES: 'deployment=test' });
  const jobId = (await ask(TRACED, { temperature: 0.5, max_tokens: 3 })).headers.get('x-job-id');
  const spans = await untilSpans(4);
  expect(tree(spans)).toEqual(TREE);
  expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
  expect(new Set(spans.map(({ traceState }) => traceState))).toEqual(new Set(['vendor=1']));
  const [server, send, process, chat] = [2, 4, 5, 3].map((kind) => spans.find((span) => span.kind === kind)!);
  expect([server, send, process, chat].map((span) => span?.service)).toEqual([
    'gpu-gateway',
    'gpu-gateway',
    'gpu',
    'gpu',
  ]);
  expect(server?.attributes).toMatchObject({
    'http.route': '/v1/chat/completions',
    'http.response.status_code': 200,
  });
  expect(process?.attributes).toMatchObject({
    'messaging.system': 'worker_vllm',
    'messaging.destination.name': 'cfg',
    'messaging.message.id': jobId,
    'worker_vllm.attempt': 1,
    'worker_vllm.queue_ms': expect.any(Number),
  });
  expect(chat?.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'tiny',
    'gen_ai.request.temperature': 0.5,
    'gen_ai.request.max_tokens': 3,
    'gen_ai.usage.input_tokens': 5,
    'gen_ai.usage.output_tokens': 2,
  });
  for (const span of spans) expect(span.end).toBeGreaterThanOrEqual(span.start);
  expect(spans.some(({ isError }) => isError)).toBe(false);
  expect(asked[0]).toMatchObject({ traceparent: `00-${TRACE}-${chat?.spanId}-01`, tracestate: 'vendor=1' });
  expect(JSON.stringify(collector.posts)).not.toContain(SECRET);
  expect(collector.posts[0]).toMatchObject({ path: '/v1/traces', authorization: 'Bearer collector' });
});

it('a stream tells when its first piece came, and one that nobody traced begins a trace', async () => {
  await startTracing('stream');
  await (await ask({ traceparent: 'nonsense' }, { stream: true })).text();
  const spans = await untilSpans(4);
  const [server] = spans.filter(({ kind }) => kind === 2);
  expect(server).toMatchObject({ parentSpanId: '', traceId: expect.stringMatching(/^[\da-f]{32}$/) });
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  expect(spans.find(({ kind }) => kind === 3)?.attributes).toMatchObject({
    'gen_ai.request.stream': true,
    'gen_ai.response.time_to_first_chunk': expect.any(Number),
  });
});

it('an attempt after a killed worker is a sibling, linked to the one before', async () => {
  isStuck = true;
  const first = await startTracing('killed');
  const answered = ask(TRACED);
  await until(() => asked.length > 0, 'the first attempt is with the engine');
  first.kill('SIGKILL');
  isStuck = false;
  await startWorker('other', { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  expect((await answered).status).toBe(200);
  const spans = await untilSpans(4);
  expect(tree(spans)).toEqual(TREE);
  const process = spans.find(({ kind }) => kind === 5);
  expect(process?.attributes['worker_vllm.attempt']).toBe(2);
  expect(process?.links).toEqual([{ traceId: TRACE, spanId: expect.stringMatching(/^[\da-f]{16}$/) }]);
  expect(process?.links[0]?.spanId).not.toBe(process?.spanId);
});

it('a stored job belongs to the trace of its submission; jobs of one array each have their own', async () => {
  await startTracing('stored');
  const payload = { messages: [{ role: 'user', content: SECRET }] };
  const job = { job_type: 'chat_completion', config_id: 'cfg', payload };
  const post = (body: unknown) =>
    fetch(`${queue.url}/api/jobs`, { method: 'POST', headers: TRACED, body: JSON.stringify(body) });
  const { id } = (await (await post(job)).json()) as { id: string };
  await settled(queue.url, id);
  const spans = await untilSpans(3);
  expect(tree(spans)).toEqual(['chat tiny < process cfg', 'process cfg < send cfg', 'send cfg < caller']);
  expect(asked[0]?.traceparent).toBe(`00-${TRACE}-${spans.find(({ kind }) => kind === 3)?.spanId}-01`);

  await post([job, job]);
  const all = (await untilSpans(9)).slice(3);
  const processes = all.filter(({ kind }) => kind === 5);
  const sends = all.filter(({ kind }) => kind === 4);
  expect(sends.map(({ traceId, parentSpanId }) => [traceId, parentSpanId])).toEqual([
    [TRACE, CALLER],
    [TRACE, CALLER],
  ]);
  expect(new Set([TRACE, ...processes.map(({ traceId }) => traceId)]).size).toBe(3);
  expect(processes.map(({ links }) => links[0]?.spanId).sort()).toEqual(
    sends.map(({ spanId }) => spanId).sort(),
  );
});

it('a trace that its caller does not sample is not exported, and the engine hears so', async () => {
  await startTracing('unsampled');
  const traceparent = TRACED.traceparent.replace(/01$/, '00');
  await (await ask({ traceparent })).text();
  expect(asked[0]?.traceparent).toBe(traceparent);
  await ask(TRACED);
  const spans = await untilSpans(4);
  expect(spans).toHaveLength(4);
});

it('an error is the error of each span', async () => {
  await startTracing('error');
  await submit(queue.url, {
    job_type: 'engine_request',
    config_id: 'cfg',
    payload: { path: '/v1/chat/completions', body: '{}' },
  });
  const spans = await untilSpans(3);
  const errors = spans.map(({ name, isError, attributes }) => [name, isError, attributes['error.type']]);
  expect(errors.sort()).toEqual([
    ['chat', true, 'engine_refused'],
    ['process cfg', true, 'engine_refused'],
    ['send cfg', false, undefined],
  ]);
});

it('the trace goes to the engine where nothing is exported, of stored jobs too', async () => {
  await startWorker('silent', {});
  await (await ask(TRACED)).text();
  expect(asked[0]).toMatchObject(TRACED);
  const response = await fetch(`${queue.url}/api/jobs`, {
    method: 'POST',
    headers: TRACED,
    body: JSON.stringify({
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload: { messages: [{ role: 'user', content: 'Hello' }] },
    }),
  });
  const { id } = (await response.json()) as { id: string };
  await settled(queue.url, id);
  expect(asked[1]).toMatchObject(TRACED);
});

it('a collector that is gone is one line in the log, and the last spans are not waited for', async () => {
  const worker = await startWorker('lonely', {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    OTEL_EXPORTER_OTLP_TIMEOUT: '200',
  });
  expect((await ask(TRACED)).status).toBe(200);
  await worker.waitForLine(/spans cannot be exported/);
  worker.kill('SIGTERM');
  expect((await worker.exited).code).toBe(0);
});
