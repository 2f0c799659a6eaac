import { expect, it } from 'vitest';
import type { LimitView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Budgets over kills of the process that holds the queue: exactly what was acknowledged counts, once. */

const budgets = { tokens_per_day: 1000, tokens_per_month: 1000, dollars_per_day: 1000 };
/** Each has a tenant of two tokens. */
const TRIES = ['first', 'second'];

const road = startTestQueue({
  TOKENS: JSON.stringify([
    ...TRIES.flatMap((tenant) => [
      tokenEntry(`${tenant}-app`, ['submit'], { tenant, limits: { ...budgets, tenant: budgets } }),
      tokenEntry(`${tenant}-other`, ['submit'], { tenant }),
    ]),
    tokenEntry('poor', ['submit'], { limits: { dollars_per_day: 0.01 } }),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin']),
  ]),
});

/** Two slots, each of which costs a dollar in 20 ms. */
const PRICE = 100 * 3600;

function connect(): Promise<RawWorker> {
  const instance = { id: 'w', models: ['tiny'], boot_id: 'w', price_per_hour: PRICE };
  return new RawWorker(road.url, 'worker')
    .connect()
    .then((one) => one.register('w', { capacity: 2, instance }));
}

async function ask<T>(token: string, path: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${token}` };
  const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
  const response = await fetch(road.url + path, { headers, ...init });
  return (await response.json()) as T;
}

/** Of the token and of its tenant. */
async function used(token: string): Promise<Record<string, number[]>> {
  const { limits } = await ask<{ limits: LimitView[] }>('operator', '/api/limits');
  const own = limits.filter(({ token_name }) => token_name === token);
  return Object.fromEntries(
    own.map(({ tenant, tokens_per_day: day, tokens_per_month: month }) => [
      tenant ?? 'own',
      [day.used, month.used],
    ]),
  );
}

/** In money: what the token's budget says, and what the usage of its slots costs. */
async function spent(token: string): Promise<{ budget: number; usage: number; slots: number }> {
  const { limits } = await ask<{ limits: LimitView[] }>('operator', '/api/limits');
  const own = limits.find(({ token_name, tenant }) => token_name === token && tenant === null)!;
  const path = `/api/usage?days=2&token_name=${token}`;
  const { total } = await ask<{ total: { dollars: number | null; slot_ms: number } }>('operator', path);
  const slots = (total.slot_ms * PRICE) / 2 / 3_600_000;
  return { budget: own.dollars_per_day.used, usage: total.dollars ?? 0, slots };
}

async function runJob(worker: RawWorker, token: string, id: string): Promise<void> {
  const job = { id, job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } };
  expect(await ask(token, '/api/jobs', job)).toMatchObject({ id });
  await until(() => worker.frames.some(({ job_id }) => job_id === id), 'the worker has the job');
  const { job_id, fence_token } = worker.frames.find((frame) => frame.job_id === id)!;
  const usage = { prompt_tokens: 10, completion_tokens: 20, model: 'tiny' };
  const settlement = { type: 'job_result', job_id, fence_token, usage, result: { ok: true } };
  for (const _ of [1, 2]) worker.send(settlement);
  const acked = () => worker.frames.some((frame) => frame.type === 'ack' && frame.job_id === id);
  await until(acked, 'the settlement is on disk');
}

/** What was used after each round, and after the kill that ends it; in money, beside it. */
async function rounds(tenant: string) {
  const seen: Record<string, number[]>[] = [];
  const money: Awaited<ReturnType<typeof spent>>[] = [];
  for (let round = 1; round <= 3; round++) {
    const worker = await connect();
    await runJob(worker, `${tenant}-app`, `${tenant}-app-${round}`);
    await runJob(worker, `${tenant}-other`, `${tenant}-other-${round}`);
    seen.push(await used(`${tenant}-app`));
    money.push(await spent(`${tenant}-app`));
    await road.killAndRestart();
    seen.push(await used(`${tenant}-app`));
    money.push(await spent(`${tenant}-app`));
  }
  return { seen, money };
}

it('is exact over kill -9, whatever is told again', async () => {
  const expected = (tenant: string) =>
    [1, 1, 2, 2, 3, 3].map((n) => ({ own: [30 * n, 30 * n], [tenant]: [60 * n, 60 * n] }));
  for (const tenant of TRIES) {
    const day = new Date().getUTCDate();
    const { seen, money } = await rounds(tenant);
    // A budget resets at midnight.
    if (new Date().getUTCDate() !== day && tenant !== TRIES.at(-1)) continue;
    expect(seen).toEqual(expected(tenant));
    for (const { budget, usage, slots } of money) {
      expect(budget).toBe(usage);
      expect(usage).toBeCloseTo(slots, 6);
    }
    for (const index of [0, 2, 4]) expect(money[index + 1]).toEqual(money[index]);
    expect(money[5]!.usage).toBeGreaterThan(0);
    return;
  }
});

it('in money is refused once it is spent, and says until when', async () => {
  const worker = await connect();
  // As much as its slots have cost by then: some milliseconds.
  for (let n = 1, used = 0; used < 0.01; n++) {
    await runJob(worker, 'poor', `poor-${n}`);
    used = (await spent('poor')).budget;
  }
  const body = JSON.stringify({ model: 'tiny', messages: [{ role: 'user', content: 'hello' }] });
  const headers = { authorization: 'Bearer poor' };
  const refused = await fetch(`${road.url}/v1/chat/completions`, { method: 'POST', body, headers });
  const { error } = (await refused.json()) as { error: { message: string; code: string } };
  expect([refused.status, error.code]).toEqual([429, 'rate_limit_exceeded']);
  expect(error.message).toMatch(
    /limit of 0\.01 US dollars a day: it resets at \d{4}-\d\d-\d\dT00:00:00\.000Z/,
  );
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
});
