import { expect, it } from 'vitest';
import type { LimitView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { tokenEntry } from '../support/token-entry.ts';
import { startTestWorkerd } from '../support/workerd-queue.ts';

/** Budgets over kills of the process that holds the queue: exactly what was acknowledged counts, once. */

const budgets = { tokens_per_day: 1000, tokens_per_month: 1000 };
/** Each has a tenant of two tokens. */
const TRIES = ['first', 'second'];

const road = startTestWorkerd({
  TOKENS: JSON.stringify([
    ...TRIES.flatMap((tenant) => [
      tokenEntry(`${tenant}-app`, ['submit'], { tenant, limits: { ...budgets, tenant: budgets } }),
      tokenEntry(`${tenant}-other`, ['submit'], { tenant }),
    ]),
    tokenEntry('worker', ['worker']),
    tokenEntry('operator', ['admin']),
  ]),
});

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

/** What was used after each round, and after the kill that ends it. */
async function rounds(tenant: string): Promise<Record<string, number[]>[]> {
  const seen: Record<string, number[]>[] = [];
  for (let round = 1; round <= 3; round++) {
    const worker = await (await new RawWorker(road.url, 'worker').connect()).register('w', { capacity: 2 });
    await runJob(worker, `${tenant}-app`, `${tenant}-app-${round}`);
    await runJob(worker, `${tenant}-other`, `${tenant}-other-${round}`);
    seen.push(await used(`${tenant}-app`));
    await road.killAndRestart();
    seen.push(await used(`${tenant}-app`));
  }
  return seen;
}

it('is exact over kill -9, whatever is told again', async () => {
  const expected = (tenant: string) =>
    [1, 1, 2, 2, 3, 3].map((n) => ({ own: [30 * n, 30 * n], [tenant]: [60 * n, 60 * n] }));
  for (const tenant of TRIES) {
    const day = new Date().getUTCDate();
    const seen = await rounds(tenant);
    // A budget resets at midnight.
    if (new Date().getUTCDate() !== day && tenant !== TRIES.at(-1)) continue;
    expect(seen).toEqual(expected(tenant));
    return;
  }
});
