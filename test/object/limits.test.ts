import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { JobConnection } from '../../src/client/index.ts';
import type { Limits, LimitView, NewToken, TokenView } from '../../src/protocol/index.ts';
import type { TokenEntry } from '../../src/settings/token-entry.ts';
import { until } from '../support/poll.ts';
import { rawCaller } from '../support/raw-caller.ts';
import { type JobFrame, RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Limits of tokens over HTTP, in a real queue, asked for with OpenAI's client; the worker is played. */

const entry = (name: string, scopes: TokenEntry['scopes'], limits?: Limits) =>
  tokenEntry(`wv_${name}`, scopes, { name, ...(limits && { limits }) });
const road = startTestQueue({
  TOKENS: JSON.stringify([
    entry('operator', ['admin']),
    entry('worker', ['worker']),
    entry('two', ['submit'], { requests_per_minute: 2, tokens_per_minute: 10_000 }),
    entry('lasting', ['submit'], { requests_per_minute: 1 }),
    entry('one-at-a-time', ['submit'], { running: 1 }),
    entry('tokens', ['submit'], { tokens_per_minute: 1000 }),
    entry('stores', ['submit'], { running: 1 }),
    entry('crowd', ['submit'], { requests_per_minute: 12, tokens_per_minute: 1_000_000 }),
    entry('crowd-tokens', ['submit'], { tokens_per_minute: 1000 }),
    entry('idle', ['submit'], { running: 7 }),
    entry('stores-much', ['submit'], { tokens_per_minute: 1_000_000 }),
  ]),
});

const client = (name: string, maxRetries = 0) =>
  new OpenAI({ baseURL: `${road.url}/v1`, apiKey: `wv_${name}`, maxRetries });
const chat = (max_tokens = 100) => ({
  model: 'tiny',
  max_tokens,
  messages: [{ role: 'user' as const, content: 'hello' }],
});

const asRefused = { headers: REFUSED_FIRST };

function admin<T>(method: string, path: string, body?: object): Promise<T> {
  const headers = { authorization: 'Bearer wv_operator', 'content-type': 'application/json' };
  return fetch(road.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) }).then(
    (response) => response.json() as Promise<T>,
  );
}

async function standing(name: string): Promise<LimitView | undefined> {
  const { limits } = await admin<{ limits: LimitView[] }>('GET', '/api/limits');
  return limits.find(({ token_name }) => token_name === name);
}

let workers = 0;
async function worker(id = `w${++workers}`): Promise<RawWorker> {
  return await (await new RawWorker(road.url, 'wv_worker').connect()).register(id, { capacity: 8 });
}

function settle(played: RawWorker, job: JobFrame, tokens = 20): void {
  if (job.stream_id !== undefined) played.answerJson(job);
  const { job_id, fence_token, account } = job;
  const usage = { prompt_tokens: 1, completion_tokens: tokens - 1, model: 'tiny' };
  played.send({ type: 'job_result', job_id, fence_token, account, usage, result: { status: 'success' } });
}

/** Answers so many jobs that come. */
async function answers(played: RawWorker, jobs: number): Promise<void> {
  for (let index = 0; index < jobs; index++) settle(played, await played.job(index));
}

describe('limits of a token', () => {
  it('count on when the process starts again', async () => {
    void answers(await worker('returns'), 1);
    await client('lasting').chat.completions.create(chat());
    await until(async () => (await standing('lasting'))?.running.used === 0, 'nothing runs');
    await road.restart();
    expect((await standing('lasting'))?.requests_per_minute.used).toBe(1);
    // Until it has said what it goes on with, the queue does not know how many requests run.
    const back = await worker('returns');
    const again = () => client('lasting').chat.completions.create(chat(), asRefused);
    const status = () => again().catch((error: InstanceType<typeof OpenAI.APIError>) => error.status);
    await until(async () => (await status()) === 429, 'it is refused');
    back.vanish();
  });

  it('are told with every answer, and refuse with the time that the client waits', async () => {
    const played = await worker();
    void answers(played, 2);
    const openai = client('two');
    const begun = performance.now();
    const { response } = await openai.chat.completions.create(chat()).withResponse();
    const headers = Object.fromEntries(response.headers);
    expect(headers).toMatchObject({
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-limit-tokens': '10000',
    });
    expect(headers['x-ratelimit-reset-requests']).toMatch(/^(1m[\d.]+s|[\d.]+s)$/);
    expect(Number(headers['x-ratelimit-remaining-tokens'])).toBeLessThan(10_000);
    await openai.chat.completions.create(chat());
    const refused = await openai.chat.completions.create(chat(), asRefused).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OpenAI.RateLimitError);
    const { code, headers: told } = refused as InstanceType<typeof OpenAI.RateLimitError>;
    expect(code).toBe('rate_limit_exceeded');
    // A request counts for a minute.
    const passed = (performance.now() - begun) / 1000;
    expect(Number(told?.get('retry-after'))).toBeGreaterThanOrEqual(60 - passed);
    expect(told?.get('x-ratelimit-remaining-requests')).toBe('0');
    played.vanish();
  });

  it('hold for streams as for whole answers, and are corrected to what was used', async () => {
    const played = await worker();
    const openai = client('tokens');
    const asked = openai.chat.completions.create({ ...chat(800), stream: true });
    const job = await played.job();
    // What it may cost is reserved while it runs.
    const refused = await openai.chat.completions
      .create(chat(800), asRefused)
      .catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(OpenAI.RateLimitError);
    settle(played, job, 15);
    await asked.catch(() => {});
    await until(
      async () => (await standing('tokens'))?.tokens_per_minute.used === 15,
      'what was used is counted in the place of what was reserved',
    );
    played.vanish();
  });

  it('are waited for by the client that retries, and by one that says so', async () => {
    const played = await worker();
    const asked = client('one-at-a-time').chat.completions.create(chat());
    const first = await played.job(0);
    // OpenAI's client honours Retry-After.
    const retried = client('one-at-a-time', 10).chat.completions.create(chat());
    const waiting = client('one-at-a-time').chat.completions.create(chat(), {
      headers: { 'x-queue-wait': '60' },
    });
    await until(async () => (await standing('one-at-a-time'))?.held === 1, 'one waits for its limit');
    settle(played, first);
    for (const index of [1, 2]) {
      const job = await played.job(index);
      expect((await standing('one-at-a-time'))?.running.used).toBe(1);
      settle(played, job);
    }
    await Promise.all([asked, retried, waiting]);
    played.vanish();
  });

  it('let no more in than there may be, over however many connections they are asked at one moment', async () => {
    const played = await (await new RawWorker(road.url, 'wv_worker').connect()).register('crowded', {
      capacity: 100,
    });
    const most = { crowd: 12, 'crowd-tokens': 8 };
    const asked = (name: keyof typeof most) =>
      Array.from({ length: 40 }, (_, index) =>
        // Each has a connection of its own, as from another gateway.
        rawCaller(
          road.url,
          '/v1/chat/completions',
          { ...chat(100), stream: index % 2 === 0 },
          { authorization: `Bearer wv_${name}` },
        ),
      );
    const callers = await Promise.all([...asked('crowd'), ...asked('crowd-tokens')]);
    const jobs = () => played.frames.filter(({ type }) => type === 'job') as JobFrame[];
    // With its status, or late in a response that was begun.
    const refused = () => callers.filter(({ heard }) => heard().includes('rate_limit_exceeded'));
    const wanted = most.crowd + most['crowd-tokens'];
    await until(() => jobs().length + refused().length === callers.length, 'all are admitted or refused');
    expect(jobs()).toHaveLength(wanted);
    for (const job of jobs()) settle(played, job);
    for (const [name, admitted] of Object.entries(most)) {
      await until(async () => (await standing(name))?.running.used === 0, 'nothing runs any more');
      expect((await standing(name))?.requests_per_minute.used).toBe(admitted);
    }
    played.vanish();
  });

  it('are listed before their token is used', async () => {
    expect(await standing('idle')).toMatchObject({ running: { used: 0, limit: 7 } });
    const limits = { dollars_per_day: 1.5, tenant: { tokens_per_month: 1000 } };
    await admin<NewToken>('POST', '/api/tokens', { name: 'new', tenant: 'lab', scopes: ['submit'], limits });
    const { limits: all } = await admin<{ limits: LimitView[] }>('GET', '/api/limits');
    expect(all.filter(({ token_name }) => token_name === 'new')).toMatchObject([
      { tenant: null, dollars_per_day: { used: 0, limit: 1.5 } },
      { tenant: 'lab', tokens_per_month: { used: 0, limit: 1000 } },
    ]);
  });

  it('let stored jobs wait, which are never refused', async () => {
    const played = await worker();
    const submit = (id: string) =>
      fetch(`${road.url}/api/jobs`, {
        method: 'POST',
        headers: { authorization: 'Bearer wv_stores' },
        body: JSON.stringify({ id, job_type: 'chat_completion', payload: { model: 'tiny', messages: [] } }),
      });
    for (const id of ['s1', 's2', 's3']) expect((await submit(id)).status).toBe(201);
    expect(await standing('stores')).toMatchObject({ running: { used: 1, limit: 1 }, held: 2 });
    for (const [index, id] of ['s1', 's2', 's3'].entries()) {
      const job = await played.job(index);
      expect(job.job_id).toBe(id);
      settle(played, job);
    }
    await until(async () => (await standing('stores'))?.running.used === 0, 'nothing is reserved any more');
    played.vanish();
  });

  it('reserve what a long stored job may cost, whose payload lies in a file', async () => {
    const played = await worker();
    const messages = [{ role: 'user', content: 'a'.repeat(400_000) }];
    const { status } = await fetch(`${road.url}/api/jobs`, {
      method: 'POST',
      headers: { authorization: 'Bearer wv_stores-much' },
      body: JSON.stringify({ id: 'long', job_type: 'chat_completion', payload: { model: 'tiny', messages } }),
    });
    expect(status).toBe(201);
    expect((await standing('stores-much'))?.tokens_per_minute.used).toBeGreaterThan(100_000);
    settle(played, await played.job(0));
    await until(
      async () => (await standing('stores-much'))?.tokens_per_minute.used === 20,
      'what was used is counted in the place of what was reserved',
    );
    played.vanish();
  });

  it('are changed without a new secret, in force at once, and taken away', async () => {
    const played = await worker();
    void answers(played, 3);
    const limits = { requests_per_minute: 1 };
    const made = await admin<NewToken>('POST', '/api/tokens', { name: 'grows', scopes: ['submit'], limits });
    expect(made.limits).toEqual(limits);
    const openai = new OpenAI({ baseURL: `${road.url}/v1`, apiKey: made.token, maxRetries: 0 });
    await openai.chat.completions.create(chat());
    await expect(openai.chat.completions.create(chat(), asRefused)).rejects.toBeInstanceOf(
      OpenAI.RateLimitError,
    );
    const raised = { limits: { requests_per_minute: 2 } };
    expect(await admin<TokenView>('PATCH', '/api/tokens/grows', raised)).toMatchObject(raised);
    await openai.chat.completions.create(chat());
    await expect(openai.chat.completions.create(chat(), asRefused)).rejects.toBeInstanceOf(
      OpenAI.RateLimitError,
    );
    expect(await admin('PATCH', '/api/tokens/grows', { limits: null })).toMatchObject({ limits: null });
    const { response } = await openai.chat.completions.create(chat()).withResponse();
    expect(response.headers.get('x-ratelimit-limit-requests')).toBeNull();
    expect(await admin('PATCH', '/api/tokens/grows', { limits: { per_minute: 1 } })).toMatchObject({
      error: { code: 'invalid_token' },
    });
    expect(await admin('PATCH', '/api/tokens/two', { limits: null })).toMatchObject({
      error: { code: 'token_in_file' },
    });
    played.vanish();
  });

  it('are those of now for a program whose job socket was open before they were changed', async () => {
    const made = await admin<NewToken>('POST', '/api/tokens', {
      name: 'dialled',
      scopes: ['submit'],
      models: ['tiny', 'small'],
      limits: { running: 1 },
    });
    const program = new JobConnection({ url: road.url, token: made.token });
    const settle = (id: string, model: string) =>
      program.settle({ id, config_id: 'cfg', job_type: 'chat_completion', payload: { model, messages: [] } });
    const isStored = async (id: string) =>
      (await admin<{ id?: string }>('GET', `/api/jobs/${id}`)).id === id && (await standing('dialled'));
    void settle('before', 'tiny');
    expect(await until(() => isStored('before'), 'it is stored')).toMatchObject({ running: { limit: 1 } });
    const changed = { limits: { running: 3 }, models: ['small'] };
    expect(await admin('PATCH', '/api/tokens/dialled', changed)).toMatchObject(changed);
    void settle('after', 'small');
    expect(await until(() => isStored('after'), 'it is stored')).toMatchObject({ running: { limit: 3 } });
    expect(await settle('other', 'tiny')).toMatchObject({ error: { code: 'model_denied' } });
    program.close();
  });
});
