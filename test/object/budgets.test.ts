import { expect, it } from 'vitest';
import type { LimitView } from '../../src/protocol/index.ts';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { tokenEntry } from '../support/token-entry.ts';
import { startTestWorkerd } from '../support/workerd-queue.ts';

/** A budget over kills of the process that holds the queue: exactly what was acknowledged counts, once. */

const TOKENS = JSON.stringify([
  tokenEntry('app', ['submit'], { limits: { tokens_per_day: 1000, tokens_per_month: 1000 } }),
  tokenEntry('worker', ['worker']),
  tokenEntry('operator', ['admin']),
]);

const road = startTestWorkerd({ TOKENS });

async function ask<T>(token: string, path: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${token}` };
  const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
  const response = await fetch(road.url + path, { headers, ...init });
  return (await response.json()) as T;
}

async function used(): Promise<number[]> {
  const { limits } = await ask<{ limits: LimitView[] }>('operator', '/api/limits');
  return limits.flatMap(({ tokens_per_day, tokens_per_month }) => [
    tokens_per_day.used,
    tokens_per_month.used,
  ]);
}

it('is exact over kill -9, whatever is told again', async () => {
  for (let round = 1; round <= 3; round++) {
    const worker = await (await new RawWorker(road.url, 'worker').connect()).register('w', { capacity: 2 });
    const job = {
      id: `job-${round}`,
      job_type: 'chat_completion',
      config_id: 'cfg',
      payload: { messages: [] },
    };
    expect(await ask('app', '/api/jobs', job)).toMatchObject({ id: job.id });
    const { job_id, fence_token } = await worker.job();
    const usage = { prompt_tokens: 10, completion_tokens: 20, model: 'tiny' };
    const settlement = { type: 'job_result', job_id, fence_token, usage, result: { ok: true } };
    for (const _ of [1, 2]) worker.send(settlement);
    await until(() => worker.frames.some(({ type }) => type === 'ack'), 'the settlement is on disk');
    expect(await used()).toEqual([30 * round, 30 * round]);
    await road.killAndRestart();
    expect(await used()).toEqual([30 * round, 30 * round]);
  }
});
