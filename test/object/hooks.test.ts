import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { ENGINE_ROUTES, type EngineRoute } from '../../src/protocol/engine-routes.ts';
import { bounds } from '../../src/protocol/index.ts';
import { type Asked, type HookReceiver, startHookReceiver } from '../support/hook-receiver.ts';
import { until } from '../support/poll.ts';
import { type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Hooks see, change and refuse what is asked and answered on every generating route, by every road there is. */

let receiver: HookReceiver;
const bindings: Record<string, string> = {
  HOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  HOOK_HOLD: '12',
  HOOK_SECONDS: '1',
  TOKENS: JSON.stringify([
    tokenEntry('app', ['submit'], { tenant: 'team' }),
    tokenEntry('narrow', ['submit'], { tenant: 'team', models: ['tiny'] }),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin', 'read']),
  ]),
};

/** Masks a word in what is asked and hides one in what is answered; refuses others. */
function policy(asked: Asked): object {
  const text = asked.stage === 'before' ? JSON.stringify(asked.body) : String(asked.text);
  if (text.includes('FORBIDDEN'))
    return { action: 'refuse', message: 'This is not allowed here.', code: 'policy' };
  if (asked.stage === 'before' && text.includes('NAME'))
    return { action: 'replace', body: JSON.parse(text.replaceAll('NAME', 'MASK')) };
  if (asked.stage === 'after' && text.includes('SECRET'))
    return { action: 'replace', text: text.replaceAll('SECRET', '******') };
  return { action: 'allow' };
}

beforeAll(async () => {
  receiver = await startHookReceiver(policy);
  bindings.HOOK_BEFORE = `private:${receiver.url}/before`;
  bindings.HOOK_AFTER = `private:${receiver.url}/after`;
});
afterAll(() => receiver.stop());
beforeEach(() => {
  receiver.asked.length = 0;
  receiver.decide = policy;
});

const road = startTestQueue(bindings);

type Form = NonNullable<EngineRoute['generates']>;

const messages = (text: string) => [{ role: 'user', content: text }];
const asks = (form: Form, text: string): object => {
  switch (form) {
    case 'chats':
      return { messages: [messages(text)] };
    case 'text':
      return { prompt: text };
    case 'tokens':
      return { token_ids: [1, 2], prompt_text: text };
    case 'response':
      return { input: text };
    default:
      return { messages: messages(text) };
  }
};

/** What an engine answers, whole and as a stream. Token ids are no text, but engines may give both. */
function answers(form: Form, text: string): { whole: object; events: object[] } {
  const pieces = text.match(/.{1,4}/gs)!;
  if (form === 'response') {
    const at = { output_index: 0, content_index: 0 };
    const item = (text: string) => ({
      type: 'message',
      id: 'm',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text, annotations: [] }],
    });
    const response = (status: string, text?: string) => ({
      id: 'resp_e',
      object: 'response',
      status,
      output: text === undefined ? [] : [item(text)],
    });
    return {
      whole: response('completed', text),
      events: [
        { type: 'response.created', sequence_number: 0, response: response('in_progress') },
        {
          type: 'response.output_item.added',
          sequence_number: 1,
          output_index: 0,
          item: { ...item(''), content: [] },
        },
        {
          type: 'response.content_part.added',
          sequence_number: 2,
          ...at,
          part: { type: 'output_text', text: '', annotations: [] },
        },
        ...pieces.map((delta, n) => ({
          type: 'response.output_text.delta',
          sequence_number: 3 + n,
          ...at,
          delta,
        })),
        { type: 'response.output_text.done', sequence_number: 90, ...at, text },
        { type: 'response.output_item.done', sequence_number: 91, output_index: 0, item: item(text) },
        { type: 'response.completed', sequence_number: 92, response: response('completed', text) },
      ],
    };
  }
  if (form === 'message')
    return {
      whole: { type: 'message', content: [{ type: 'text', text }], stop_reason: 'end_turn' },
      events: [
        ...pieces.map((text) => ({
          type: 'content_block_delta',
          index: 0,
          delta: { type: 'text_delta', text },
        })),
        { type: 'message_stop' },
      ],
    };
  const isText = form === 'text' || form === 'tokens';
  return {
    whole: {
      choices: [
        {
          index: 0,
          ...(isText ? { text } : { message: { role: 'assistant', content: text } }),
          finish_reason: 'stop',
        },
      ],
    },
    events: [
      ...pieces.map((text) => ({
        choices: [{ index: 0, ...(isText ? { text } : { delta: { content: text } }), finish_reason: null }],
      })),
      { choices: [{ index: 0, ...(isText ? { text: '' } : { delta: {} }), finish_reason: 'stop' }] },
    ],
  };
}

const streamText = (form: Form, text: string) => {
  const { events } = answers(form, text);
  const names = events.map((event) => ('type' in event ? `event: ${event.type}\n` : ''));
  return (
    events.map((event, at) => `${names[at]}data: ${JSON.stringify(event)}\n\n`).join('') +
    (form === 'response' || form === 'message' ? '' : 'data: [DONE]\n\n')
  );
};

const TEXT = 'He said that SECRET is the word, and then nothing more.';
const HIDDEN = TEXT.replace('SECRET', '******');

/** Answers a job on its stream and as its result. */
function settle(worker: RawWorker, job: JobFrame, form: Form, isStream: boolean): void {
  const { job_id, fence_token, account, stream_id: stream } = job;
  const whole = answers(form, TEXT).whole;
  const text = isStream ? streamText(form, TEXT) : JSON.stringify(whole);
  if (stream !== undefined) {
    const data = new TextEncoder().encode(text);
    const type = isStream ? 'text/event-stream' : 'application/json';
    worker.answer(
      { type: 'head', stream, head: { status: 200, headers: { 'content-type': type } } },
      { type: 'bytes', stream, offset: 0, data },
      { type: 'end', stream, size: data.byteLength },
    );
  }
  const response = { status: 200, content_type: 'application/json', body: isStream ? text : whole };
  worker.send({ type: 'job_result', job_id, fence_token, account, result: { response } });
}

function askedOf(job: JobFrame): string {
  return JSON.stringify(job.payload);
}

interface Queue {
  worker: RawWorker;
  ask(path: string, body?: object | string, token?: string): Promise<Response>;
  id: string;
}

async function open(): Promise<Queue> {
  const id = road.newQueue();
  const worker = await new RawWorker(road.url, 'worker').connect(id);
  await worker.register('w', { capacity: 4 });
  const ask = (path: string, body?: object | string, token = 'app') =>
    fetch(road.url + path, {
      headers: { authorization: `Bearer ${token}`, 'x-queue-id': id, 'content-type': 'application/json' },
      ...(body !== undefined && {
        method: 'POST',
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    });
  return { worker, ask, id };
}

/** The texts of an answer put together, in whichever form it is. */
const joined = (text: string) =>
  [...text.matchAll(/"(?:text|content|delta)":"((?:[^"\\]|\\.)*)"/g)].map(([, said]) => said).join('');

type Road = (queue: Queue, path: string, form: Form, body: object) => Promise<string>;

const settledJob = async ({ ask }: Queue, id: string) => {
  const job = (await (await ask(`/api/jobs/${id}?wait=20`)).json()) as {
    state: string;
    result: unknown;
    error: unknown;
  };
  return JSON.stringify(job);
};

const ROADS: Record<string, Road> = {
  'a live request': async ({ worker, ask }, path, form, body) => {
    const answer = ask(path, body);
    const job = await worker.job();
    expect(askedOf(job)).toContain('MASK');
    settle(worker, job, form, false);
    return await (await answer).text();
  },
  'a live stream': async ({ worker, ask }, path, form, body) => {
    const answer = ask(path, { ...body, stream: true });
    settle(worker, await worker.job(), form, true);
    return await (await answer).text();
  },
  'a stored job': async (queue, path, form, body) => {
    const { worker, ask } = queue;
    const payload = { method: 'POST', path, body: JSON.stringify(body) };
    const { id } = (await (await ask('/api/jobs', { job_type: 'engine_request', payload })).json()) as {
      id: string;
    };
    settle(worker, await worker.job(), form, false);
    return await settledJob(queue, id);
  },
  'the stream of a stored job': async (queue, path, form, body) => {
    const { worker, ask } = queue;
    const payload = { method: 'POST', path, body: JSON.stringify({ ...body, stream: true }) };
    const job = { job_type: 'engine_request', payload, stream: true };
    const { id } = (await (await ask('/api/jobs', job)).json()) as { id: string };
    const reading = ask(`/api/jobs/${id}/stream`).then((answer) => answer.text());
    settle(worker, await worker.job(), form, true);
    const [live, stored] = [await reading, await settledJob(queue, id)];
    expect(stored).not.toContain('SEC');
    return live;
  },
  'the job socket': async (queue, path, form, body) => {
    const { worker, id: queueId } = queue;
    const socket = new WebSocket(`${road.url.replace(/^http/, 'ws')}/api/jobs/socket?queue_id=${queueId}`, {
      headers: { authorization: 'Bearer app' },
    });
    const frames: string[] = [];
    socket.on('message', (data) => frames.push(String(data)));
    await new Promise((open) => socket.once('open', open));
    const payload = { method: 'POST', path, body: JSON.stringify(body) };
    socket.send(
      JSON.stringify({ type: 'submit', jobs: [{ id: 'one', job_type: 'engine_request', payload }] }),
    );
    settle(worker, await worker.job(), form, false);
    const settled = await until(
      () => frames.find((frame) => frame.includes('"settled"')),
      'the program is told',
    );
    socket.close();
    return settled;
  },
  'a job of RunPod': async (queue, path, form, body) => {
    const { worker, ask } = queue;
    const answer = ask('/v2/default/runsync', { input: { openai_route: path, openai_input: body } });
    const job = await worker.job();
    const { job_id, fence_token } = job;
    const output = [answers(form, TEXT).whole];
    worker.send({ type: 'job_result', job_id, fence_token, result: { job_type: 'runpod', output } });
    return await (await answer).text();
  },
  'a line of a batch': async ({ worker, ask, id }, path, form, body) => {
    const form_ = new FormData();
    const line = JSON.stringify({
      custom_id: 'a',
      method: 'POST',
      url: path,
      body: { model: 'tiny', ...body },
    });
    form_.set('purpose', 'batch');
    form_.set('file', new Blob([`${line}\n`]), 'in.jsonl');
    const headers = { authorization: 'Bearer app', 'x-queue-id': id };
    const file = (await (
      await fetch(`${road.url}/v1/files`, { method: 'POST', headers, body: form_ })
    ).json()) as { id: string };
    const asked = { input_file_id: file.id, endpoint: path, completion_window: '24h' };
    const batch = (await (await ask('/v1/batches', asked)).json()) as { id: string };
    settle(worker, await worker.job(), form, false);
    const done = await until(async () => {
      const now = (await (await ask(`/v1/batches/${batch.id}`)).json()) as {
        status: string;
        output_file_id: string;
      };
      return now.status === 'completed' ? now : null;
    }, 'the batch is done');
    return await (await ask(`/v1/files/${done.output_file_id}/content`)).text();
  },
};

const generating = ENGINE_ROUTES.filter(({ generates }) => generates !== null);

describe.each(generating)('$path', ({ path, generates }) => {
  const form = generates!;

  it.each(Object.keys(ROADS))('is seen and changed on the road of %s', async (name) => {
    const queue = await open();
    const said = await ROADS[name]!(queue, path, form, { model: 'tiny', ...asks(form, 'Hello NAME') });
    expect(joined(said)).toContain(HIDDEN);
    expect(said).not.toContain('SECRET');
    const before = receiver.asked.filter(({ stage }) => stage === 'before');
    expect(before).toMatchObject([
      { queue: queue.id, tenant: 'team', token: 'app', route: path, model: 'tiny' },
    ]);
    expect(JSON.stringify(before)).toContain('Hello NAME');
    expect(askedOf(await queue.worker.job())).toContain('Hello MASK');
    expect(receiver.asked.find(({ stage }) => stage === 'after')).toMatchObject({
      route: path,
      token: 'app',
    });
  });

  it('is refused before an engine is asked', async () => {
    const { worker, ask } = await open();
    const body = { model: 'tiny', ...asks(form, 'FORBIDDEN') };
    const live = await ask(path, body);
    expect([live.status, await live.text()]).toEqual([
      400,
      expect.stringContaining('This is not allowed here.'),
    ]);
    const payload = { method: 'POST', path, body: JSON.stringify(body) };
    const jobs = await ask('/api/jobs', [{ job_type: 'engine_request', payload }]);
    expect(await jobs.json()).toMatchObject([{ error: { status: 400, code: 'policy' } }]);
    expect(worker.frames.filter(({ type }) => type === 'job')).toEqual([]);
  });
});

describe('responses', () => {
  it.each([false, true])('in the background are seen and changed, as a stream: %s', async (stream) => {
    const { worker, ask } = await open();
    const asked = { model: 'tiny', input: 'Hello NAME', background: true, stream };
    const answer = ask('/v1/responses', asked).then((answer) => answer.text());
    const job = await worker.job();
    expect(askedOf(job)).toContain('Hello MASK');
    settle(worker, job, 'response', stream);
    const said = await answer;
    const id = /"id":"(resp_[^"]+)"/.exec(said)![1];
    const stored = await until(async () => {
      const now = await (await ask(`/v1/responses/${id}`)).text();
      return now.includes('"status":"completed"') ? now : null;
    }, 'the response is completed');
    expect(joined(stored)).toContain(HIDDEN);
    expect(joined(stream ? said : stored)).toContain(HIDDEN);
    expect(said + stored).not.toContain('SECRET');
  });

  it('go on from what passed', async () => {
    const { worker, ask } = await open();
    const first = ask('/v1/responses', { model: 'tiny', input: 'Hello' });
    settle(worker, await worker.job(), 'response', false);
    const { id } = (await (await first).json()) as { id: string };
    const next = ask('/v1/responses', { model: 'tiny', input: 'NAME?', previous_response_id: id });
    const job = await worker.job(1);
    expect(askedOf(job)).toContain('****** is the word');
    expect(askedOf(job)).toContain('MASK?');
    settle(worker, job, 'response', false);
    await (await next).text();
  });
});

const CHAT = '/v1/chat/completions';
const chatJob = (text: string, more: object = {}) => ({
  job_type: 'engine_request',
  payload: {
    method: 'POST',
    path: CHAT,
    body: JSON.stringify({ model: 'tiny', ...asks('chat', text), ...more }),
  },
});

describe('a hook', () => {
  it('sees a result that is too long for a row, and what is stored is what it left', async () => {
    const { worker, ask } = await open();
    const { id } = (await (await ask('/api/jobs', chatJob('Hello'))).json()) as { id: string };
    const { job_id, fence_token } = await worker.job();
    const content = `SECRET ${'x'.repeat(bounds.ROW_RESULT_CHARACTERS)}`;
    const body = { choices: [{ index: 0, message: { content } }] };
    worker.send({ type: 'job_result', job_id, fence_token, result: { response: { status: 200, body } } });
    await ask(`/api/jobs/${id}?wait=20&result=0`);
    const result = await (await ask(`/api/jobs/${id}/result`)).text();
    expect(result.slice(0, 200)).toContain('****** xxx');
    expect(result).not.toContain('SECRET');
  });

  it('cannot give a caller a model that its token is not for', async () => {
    const { ask } = await open();
    receiver.decide = ({ body }) => ({ action: 'replace', body: { ...(body as object), model: 'other' } });
    const live = await ask(CHAT, { model: 'tiny', ...asks('chat', 'Hello') }, 'narrow');
    expect([live.status, await live.text()]).toEqual([403, expect.stringContaining('model_denied')]);
    const stored = await ask('/api/jobs', chatJob('Hello'), 'narrow');
    expect([stored.status, await stored.text()]).toEqual([403, expect.stringContaining('model_denied')]);
  });

  it('refuses an answer: whole, in the middle of a stream, and of a stored job', async () => {
    const { worker, ask } = await open();
    receiver.decide = ({ stage, text }) =>
      stage === 'after' && String(text).includes('nothing')
        ? { action: 'refuse', message: 'Not this.', code: 'policy' }
        : { action: 'allow' };
    const body = { model: 'tiny', ...asks('chat', 'Hello') };
    const whole = ask(CHAT, body);
    settle(worker, await worker.job(), 'chat', false);
    expect([(await whole).status, await (await whole).json()]).toMatchObject([
      400,
      { error: { code: 'policy' } },
    ]);
    const stream = ask(CHAT, { ...body, stream: true });
    settle(worker, await worker.job(1), 'chat', true);
    const said = await (await stream).text();
    expect(joined(said)).toContain('He said that');
    expect(joined(said)).not.toContain('nothing');
    expect(said).toContain('"code":"policy","status":400');
    const { id } = (await (await ask('/api/jobs', chatJob('Hello'))).json()) as { id: string };
    settle(worker, await worker.job(2), 'chat', false);
    const job = await (await ask(`/api/jobs/${id}?wait=20`)).json();
    const error = { code: 'policy', message: 'Not this.', retryable: false, http_status: 400 };
    expect(job).toMatchObject({ state: 'failed', attempts: 1, result: null, error });
  });

  it('that does not answer keeps a result back, and the ledger and the metrics say so', async () => {
    const { worker, ask } = await open();
    const { id } = (await (await ask('/api/jobs', chatJob('Hello'))).json()) as { id: string };
    const job = await worker.job();
    receiver.decide = () => null;
    settle(worker, job, 'chat', false);
    const settled = await (await ask(`/api/jobs/${id}?wait=20`)).json();
    expect(settled).toMatchObject({ state: 'failed', error: { code: 'hook_failed', retryable: false } });
    const { steps } = (await (await ask(`/api/jobs/${id}/ledger`)).json()) as {
      steps: { step: string; detail: string }[];
    };
    const noted = steps.find(({ step }) => step === 'noted');
    expect(noted?.detail).toMatch(/^the hook after failed: no answer within 1 s; the answer was kept back/);
    const refused = await ask(CHAT, { model: 'tiny', ...asks('chat', 'Hello') });
    expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining('hook_failed')]);
    const metrics = await (await ask('/metrics', undefined, 'operator')).text();
    expect(metrics).toMatch(/worker_vllm_hook_calls_total\{stage="after",outcome="failure"\} [1-9]/);
  });
});
