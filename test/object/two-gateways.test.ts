import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { LimitView, NewToken } from '../../src/protocol/index.ts';
import { type MiniflareQueue, startMiniflareQueue } from '../support/miniflare-queue.ts';
import { until } from '../support/poll.ts';
import { rawCaller } from '../support/raw-caller.ts';
import { closeRawWorkers, type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Several gateways before one queue, as Cloudflare runs them; each keeps tokens for itself. */
let queue: MiniflareQueue;
beforeAll(async () => {
  const entries = [tokenEntry('wv_operator', ['admin']), tokenEntry('wv_worker', ['worker'])];
  queue = await startMiniflareQueue({ TOKENS: JSON.stringify(entries) });
});
afterEach(closeRawWorkers);
afterAll(() => queue.stop());

async function admin<T>(url: string, method: string, path: string, body?: object): Promise<T> {
  const headers = { authorization: 'Bearer wv_operator', 'content-type': 'application/json' };
  const answer = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  return (await answer.json()) as T;
}

async function standing(name: string): Promise<LimitView> {
  const { limits } = await admin<{ limits: LimitView[] }>(queue.otherUrl, 'GET', '/api/limits');
  return limits.find(({ token_name }) => token_name === name)!;
}

const chat = { model: 'tiny', max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] };

it('limits admit exactly as many as they may, over both and at one moment', async () => {
  const played = await (await new RawWorker(queue.url, 'wv_worker').connect()).register('w', {
    capacity: 100,
  });
  const most = { requests: 12, running: 7 };
  const tokens = await Promise.all([
    admin<NewToken>(queue.url, 'POST', '/api/tokens', {
      name: 'requests',
      scopes: ['submit'],
      limits: { requests_per_minute: most.requests },
    }),
    admin<NewToken>(queue.otherUrl, 'POST', '/api/tokens', {
      name: 'running',
      scopes: ['submit'],
      limits: { running: most.running },
    }),
  ]);
  const asked = tokens.flatMap(({ token }) =>
    Array.from({ length: 40 }, (_, index) =>
      rawCaller(
        index % 2 === 0 ? queue.url : queue.otherUrl,
        '/v1/chat/completions',
        { ...chat, stream: index % 4 < 2 },
        { authorization: `Bearer ${token}` },
      ),
    ),
  );
  const callers = await Promise.all(asked);
  const jobs = () => played.frames.filter(({ type }) => type === 'job') as JobFrame[];
  // With its status, or late in a response that was begun.
  const refused = () => callers.filter(({ heard }) => heard().includes('rate_limit_exceeded'));
  await until(() => jobs().length + refused().length === callers.length, 'all are admitted or refused');
  expect(jobs()).toHaveLength(most.requests + most.running);
  expect((await standing('requests')).requests_per_minute).toEqual({ used: 12, limit: 12 });
  expect((await standing('running')).running).toEqual({ used: 7, limit: 7 });
  for (const caller of callers) caller.reset();
});

it('a token that is changed or revoked at one of them is so at the other', async () => {
  const { token } = await admin<NewToken>(queue.url, 'POST', '/api/tokens', {
    name: 'a',
    scopes: ['submit'],
  });
  const ask = async () => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(`${queue.otherUrl}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify(chat),
    });
    await answer.body?.cancel();
    return answer.status;
  };
  await until(async () => (await ask()) === 503, 'the other one knows it, and that no worker is there');
  await admin(queue.url, 'PATCH', '/api/tokens/a', { models: ['qwen-*'] });
  await until(async () => (await ask()) === 403, 'the other one knows of the change');
  await admin(queue.url, 'DELETE', '/api/tokens/a');
  await until(async () => (await ask()) === 401, 'the other one refuses it');
});
