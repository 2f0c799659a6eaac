import { describe, expect, it } from 'vitest';
import { until } from '../support/poll.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { tokenEntry } from '../support/token-entry.ts';

/** Tokens of workers in a real queue: what the gateway knows of a token reaches the rules. */

const road = startTestQueue({
  TOKENS: JSON.stringify([
    tokenEntry('any', ['worker']),
    tokenEntry('green', ['worker'], { name: 'grün' }),
    tokenEntry('bound', ['worker'], { worker_id: 'runpod-*' }),
  ]),
});

async function dial(token: string, headers: Record<string, string> = {}): Promise<RawWorker> {
  return await new RawWorker(road.url, token, headers).connect();
}

/** Its close code. */
async function denied(worker: RawWorker, id: string): Promise<number> {
  await worker.register(id, { base: true });
  await worker.next('error');
  return await until(() => worker.closed, 'the newcomer is closed');
}

describe('the token of a worker', () => {
  it('keeps the id of its worker from other tokens', async () => {
    const holder = await (await dial('green')).register('w');
    expect(await denied(await dial('any'), 'w')).toBe(4409);
    expect(holder.closed).toBeNull();
    await (await dial('green')).register('w');
    expect(await until(() => holder.closed, 'the older one is closed')).toBe(4409);
  });

  it('registers no worker of an id that it is not for', async () => {
    expect(await denied(await dial('bound'), 'vast-1')).toBe(4403);
    await (await dial('bound')).register('runpod-1');
  });
});
