import { describe, expect, it } from 'vitest';
import { ENGINE_ROUTES, type EngineRoute } from '../../src/protocol/engine-routes.ts';
import type { Limits, LimitView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { type JobFrame, RawWorker, REFUSED_FIRST } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Every route that generates moves every limit, budget and usage of its token, in every form of a response. */

const BUDGETS = {
  tokens_per_day: 1e6,
  tokens_per_month: 1e6,
  dollars_per_day: 1000,
  dollars_per_month: 1000,
};
const LIMITS: Limits = { requests_per_minute: 1, tokens_per_minute: 1e6, running: 9, ...BUDGETS };
/** A slot costs a dollar in 10 ms. */
const PRICE = 100 * 3600;
const USAGE = { prompt_tokens: 10, completion_tokens: 20 };

const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('app', ['submit'], { tenant: 'team', limits: { ...LIMITS, tenant: BUDGETS } }),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin']),
  ]),
});

const MESSAGES = [{ role: 'user', content: 'Hi' }];
const BODIES: Record<NonNullable<EngineRoute['generates']>, object> = {
  chat: { messages: MESSAGES, max_tokens: 9 },
  chats: { messages: [MESSAGES], max_tokens: 9 },
  text: { prompt: 'Hi', max_tokens: 9 },
  tokens: { token_ids: [1, 2], sampling_params: { max_tokens: 9 } },
  response: { input: 'Hi', max_output_tokens: 9 },
  message: { messages: MESSAGES, max_tokens: 9 },
  invocation: { messages: MESSAGES, max_tokens: 9 },
};

interface Case {
  name: string;
  path: string;
  body: object;
}

const generating = ENGINE_ROUTES.filter(({ generates }) => generates !== null);
const CASES: Case[] = generating.flatMap(({ path, generates }) => {
  const body = { model: 'tiny', ...BODIES[generates!] };
  const whole = { name: path, path, body };
  if (generates !== 'response') return [whole];
  const form = (name: string, more: object) => ({
    name: `${path} ${name}`,
    path,
    body: { ...body, ...more },
  });
  return [
    whole,
    form('as a stream', { stream: true }),
    form('in the background', { background: true }),
    form('in the background, as a stream', { background: true, stream: true }),
    form('that is not stored', { store: false }),
  ];
});

const RESPONSE = { id: 'resp_engine', object: 'response', status: 'completed', output: [] };
const STREAM = `event: response.completed\ndata: ${JSON.stringify({ type: 'response.completed', sequence_number: 0, response: RESPONSE })}\n\n`;

/** Answers a job as an engine would, on its stream and as its result, and reports what it used. */
function settle(worker: RawWorker, job: JobFrame, isStream: boolean): void {
  const { job_id, fence_token, account, stream_id: stream } = job;
  const text = isStream ? STREAM : JSON.stringify(RESPONSE);
  const type = isStream ? 'text/event-stream' : 'application/json';
  if (stream !== undefined) {
    const data = new TextEncoder().encode(text);
    worker.answer(
      { type: 'head', stream, head: { status: 200, headers: { 'content-type': type } } },
      { type: 'bytes', stream, offset: 0, data },
      { type: 'end', stream, size: data.byteLength },
    );
  }
  const response = { status: 200, body: isStream ? text : RESPONSE };
  const usage = { ...USAGE, model: 'tiny' };
  worker.send({ type: 'job_result', job_id, fence_token, account, usage, result: { response } });
}

describe.each(CASES)('$name', ({ path, body }) => {
  it('counts against every limit and budget, and as usage', async () => {
    const queue = road.newQueue();
    const ask = async (token: string, address: string, sent?: object, more = {}) =>
      await fetch(road.url + address, {
        headers: {
          authorization: `Bearer ${token}`,
          'x-queue-id': queue,
          'content-type': 'application/json',
          ...more,
        },
        ...(sent && { method: 'POST', body: JSON.stringify(sent) }),
      });
    const of = async <T>(address: string) => (await (await ask('operator', address)).json()) as T;
    const instance = { id: 'w', models: ['tiny'], boot_id: 'w', price_per_hour: PRICE };
    const worker = await new RawWorker(road.url, 'worker').connect(queue);
    await worker.register('w', { capacity: 1, instance });
    const answered = ask('app', path, body);
    const job = await worker.job();
    const standing = async (tenant: string | null) => {
      const { limits } = await of<{ limits: LimitView[] }>('/api/limits');
      return limits.find((one) => one.token_name === 'app' && one.tenant === tenant)!;
    };
    expect((await standing(null)).running.used).toBe(1);
    // The time of the slot is paid for.
    await new Promise((done) => setTimeout(done, 20));
    settle(worker, job, 'stream' in body);
    const answer = await answered;
    expect(answer.status).toBe(200);
    await answer.text();
    await until(async () => (await standing(null)).running.used === 0, 'the request has ended');

    const { requests_per_minute, tokens_per_minute } = await standing(null);
    expect([requests_per_minute.used, tokens_per_minute.used]).toEqual([1, 30]);
    for (const tenant of [null, 'team']) {
      const budgets = await standing(tenant);
      expect([budgets.tokens_per_day.used, budgets.tokens_per_month.used]).toEqual([30, 30]);
      expect(budgets.dollars_per_day.used).toBeGreaterThan(0);
      expect(budgets.dollars_per_month.used).toBe(budgets.dollars_per_day.used);
    }
    const { total } = await of<{ total: Record<string, number> }>('/api/usage?days=2&token_name=app');
    expect(total).toMatchObject({ requests: 1, input: 10, output: 20 });
    expect(total.dollars).toBeGreaterThan(0);

    // The one request of the minute is used up: another is refused, or held back where it is stored as a job.
    const isJob = 'background' in body;
    const next = await ask('app', path, { ...body, stream: false }, isJob ? {} : REFUSED_FIRST);
    const { status } = (await next.json()) as { status?: string };
    expect([next.status, status]).toEqual(isJob ? [200, 'queued'] : [429, undefined]);
    if (isJob) await until(async () => (await standing(null)).held === 1, 'the limit holds it back');
  });
});
