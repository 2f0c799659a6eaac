import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ENGINE_ROUTES } from '../../src/protocol/engine-routes.ts';
import { bounds } from '../../src/protocol/index.ts';
import { playedQueue, ROADS } from '../support/every-road.ts';
import { type Asked, type HookReceiver, startHookReceiver } from '../support/hook-receiver.ts';
import { asks, settle } from '../support/played-answers.ts';
import { until } from '../support/poll.ts';
import type { JobFrame } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Hooks see, change and refuse what is asked and answered on every generating route, by every road there is. */

let receiver: HookReceiver;
const bindings: Record<string, string> = {
  HOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
  HOOK_HOLD: '12',
  // The receiver is in this process, which may stand still.
  HOOK_SECONDS: '60',
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

const TEXT = 'He said that SECRET is the word, and then nothing more.';
const HIDDEN = TEXT.replace('SECRET', '******');

function askedOf(job: JobFrame): string {
  return JSON.stringify(job.payload);
}

const open = () => playedQueue(road);

/** The texts of an answer put together, in whichever form it is. */
const joined = (text: string) =>
  [...text.replaceAll('\\"', '"').matchAll(/"(?:text|content|delta)":"((?:[^"\\]|\\.)*)"/g)]
    .map(([, said]) => said)
    .join('');

const generating = ENGINE_ROUTES.filter(({ generates }) => generates !== null);

describe.each(generating)('$path', ({ path, generates }) => {
  const form = generates!;

  it.each(Object.keys(ROADS))('is seen and changed on the road of %s', async (name) => {
    const queue = await open();
    const said = await ROADS[name]!(queue, path, form, { model: 'tiny', ...asks(form, 'Hello NAME') }, TEXT);
    expect(joined(said)).toContain(HIDDEN);
    expect(said + joined(said)).not.toContain('SECRET');
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
    settle(worker, job, 'response', TEXT, stream);
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
    settle(worker, await worker.job(), 'response', TEXT);
    const { id } = (await (await first).json()) as { id: string };
    const next = ask('/v1/responses', { model: 'tiny', input: 'NAME?', previous_response_id: id });
    const job = await worker.job(1);
    expect(askedOf(job)).toContain('****** is the word');
    expect(askedOf(job)).toContain('MASK?');
    settle(worker, job, 'response', TEXT);
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
    await (await ask(`/api/jobs/${id}?wait=20&result=0`)).text();
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
    settle(worker, await worker.job(), 'chat', TEXT);
    expect([(await whole).status, await (await whole).json()]).toMatchObject([
      400,
      { error: { code: 'policy' } },
    ]);
    const stream = ask(CHAT, { ...body, stream: true });
    settle(worker, await worker.job(1), 'chat', TEXT, true);
    const said = await (await stream).text();
    expect(joined(said)).toContain('He said that');
    expect(joined(said)).not.toContain('nothing');
    expect(said).toContain('"code":"policy","status":400');
    const { id } = (await (await ask('/api/jobs', chatJob('Hello'))).json()) as { id: string };
    settle(worker, await worker.job(2), 'chat', TEXT);
    const job = await (await ask(`/api/jobs/${id}?wait=20`)).json();
    const error = { code: 'policy', message: 'Not this.', retryable: false, http_status: 400 };
    expect(job).toMatchObject({ state: 'failed', attempts: 1, result: null, error });
  });

  it('sees the streams of jobs whose payload is in a file as those of others', async () => {
    const { worker, ask } = await open();
    const { payload, ...job } = chatJob(`Hello ${'x'.repeat(300 * 1024)}`, { stream: true });
    const { id } = (await (await ask('/api/jobs', { ...job, payload, stream: true })).json()) as {
      id: string;
    };
    const said = ask(`/api/jobs/${id}/stream`).then((answer) => answer.text());
    settle(worker, await worker.job(), 'chat', TEXT, 'stored');
    expect(joined(await said)).toContain(HIDDEN);
    const after = receiver.asked.filter(({ stage }) => stage === 'after');
    expect(after.length).toBeGreaterThan(1);
    for (const asked of after) expect(asked).toMatchObject({ route: CHAT, model: 'tiny', token: 'app' });
  });

  it('sees what RunPod’s clients poll, and what /status tells', async () => {
    const { worker, ask } = await open();
    const input = {
      openai_route: CHAT,
      openai_input: { model: 'tiny', ...asks('chat', 'NAME'), stream: true },
    };
    const { id } = (await (await ask('/v2/default/run', { input })).json()) as { id: string };
    const { job_id, fence_token, stream_id, ...job } = await worker.job();
    expect(JSON.stringify(job)).toContain('MASK');
    const events = ['He said SEC', 'RET, and no more.'].map(
      (content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`,
    );
    const pieces = events.map((output) => `data: ${JSON.stringify({ output })}\n\n`).join('');
    const stream = stream_id as number;
    worker.answer(
      {
        type: 'head',
        stream,
        head: { status: 200, headers: { 'content-type': 'text/event-stream' }, replayed: true },
      },
      { type: 'bytes', stream, offset: 0, data: new TextEncoder().encode(pieces) },
      { type: 'end', stream, size: pieces.length },
    );
    const polled = await until(async () => {
      const text = await (await ask(`/v2/default/stream/${id}`)).text();
      return text.includes('He said') ? text : null;
    }, 'the stream has begun');
    worker.send({ type: 'job_result', job_id, fence_token, result: { job_type: 'runpod', output: events } });
    const status = await until(async () => {
      const text = await (await ask(`/v2/default/status/${id}`)).text();
      return text.includes('COMPLETED') ? text : null;
    }, 'the job is completed');
    const rest = await (await ask(`/v2/default/stream/${id}`)).text();
    expect(joined(status)).toContain('He said ******, and no more.');
    expect(joined(polled) + joined(rest)).toBe('He said ******, and no more.');
    expect(receiver.asked.filter(({ stage }) => stage === 'before')).toHaveLength(1);
  });
});
