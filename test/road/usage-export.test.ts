import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { UsageAmounts } from '../../src/queue/rpc.ts';
import { until } from '../support/poll.ts';
import { chatJob, cli, type QueueProcess, startQueue, startWorker, tearDown } from '../support/road.ts';

/** A month as a file is held against the sums that the API tells of the same month. */
let queue: QueueProcess;

/** The name of this team is a formula. */
const TEAM = '=1+1';
const MONTH = new Date().toISOString().slice(0, 7);

beforeAll(async () => {
  queue = await startQueue({ env: { QUEUE_TOKENS: 'admin:root' } });
  const env = { CASOLA_API_TOKEN: 'root', WORKER_PRICE_PER_HOUR: '36' };
  await startWorker(queue.url, 'only', { engineArgs: '--inter-token-latency-ms 2', env });
  const isReady = async () => /"state":\s*"ready"/.test(await (await ask('/api/workers')).text());
  await until(isReady, 'the worker is ready');
});
afterAll(tearDown);

const ask = (path: string, token = 'root', init: RequestInit = {}) =>
  fetch(`${queue.url}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${token}`, ...init.headers },
  });
const post = (path: string, token: string, body: object) =>
  ask(path, token, { method: 'POST', body: JSON.stringify(body) });
const secretOf = async (answer: Promise<Response>) =>
  ((await (await answer).json()) as { token: string }).token;

interface Row extends Record<string, string | number | null> {
  mode: string;
}
async function rows(query = '', token = 'root'): Promise<Row[]> {
  const text = await (await ask(`/api/usage/export?month=${MONTH}&format=jsonl${query}`, token)).text();
  return text
    .trimEnd()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Row);
}

const BODY = { model: 'tiny', messages: [{ role: 'user', content: 'Say hello.' }], max_tokens: 3 };

describe('usage as a file', () => {
  it('has a month of every mode, whose sums are those of the API', async () => {
    const team = await secretOf(post('/api/tokens', 'root', { name: TEAM, scopes: ['submit'] }));
    const other = await secretOf(post('/api/tokens', 'root', { name: 'other', scopes: ['submit'] }));
    await (await post('/v1/chat/completions', team, BODY)).text();
    await (await post('/v1/chat/completions', other, { ...BODY, stream: true })).text();
    await post('/api/jobs?wait=60', team, chatJob(4));
    const form = new FormData();
    form.set('purpose', 'batch');
    const line = { custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: BODY };
    form.set('file', new Blob([JSON.stringify(line)]), 'lines.jsonl');
    const file = (await (await ask('/v1/files', team, { method: 'POST', body: form })).json()) as {
      id: string;
    };
    await post('/v1/batches', team, {
      input_file_id: file.id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    });

    const modes = async () => new Set((await rows()).map(({ mode }) => mode));
    await until(async () => (await modes()).size === 3, 'every mode is counted');
    expect(await modes()).toEqual(new Set(['waiting', 'stored', 'batch']));

    const [year, month] = MONTH.split('-').map(Number) as [number, number];
    const [since, end] = [0, 1].map((more) => new Date(Date.UTC(year, month - 1 + more)).toISOString());
    const { total } = (await (await ask(`/api/usage?since=${since}&until=${end}`)).json()) as {
      total: UsageAmounts & { dollars: number };
    };
    const all = await rows();
    const sum = (name: string) => all.reduce((amount, row) => amount + Number(row[name]), 0);
    for (const name of ['requests', 'succeeded', 'input', 'output', 'estimated_requests'] as const)
      expect([name, sum(name)]).toEqual([name, total[name]]);
    expect(total.requests).toBe(4);
    expect(sum('slot_seconds')).toBeCloseTo(total.slot_ms / 1000, 6);
    expect(sum('unpriced_slot_seconds')).toBe(0);
    expect(sum('dollars')).toBeCloseTo(total.dollars, 8);
    expect(total.dollars).toBeGreaterThan(0);

    const own = await rows('', other);
    expect(own.map(({ tenant, mode }) => [tenant, mode])).toEqual([['other', 'waiting']]);
    expect((await rows('&tenant=other', team)).every(({ tenant }) => tenant === TEAM)).toBe(true);
  });

  it('is CSV by the command, in which no name is a formula', async () => {
    const args = ['usage', '--month', MONTH, '--url', queue.url, '--token', 'root'];
    const command = cli(args, {}, 'worker-vllm usage');
    expect((await command.exited).code).toBe(0);
    const lines = command.output().split(/\r?\n/).filter(Boolean);
    expect(lines[0]).toMatch(/^kind,day,tenant,/);
    expect(lines.length).toBe((await rows()).length + 1);
    expect(lines.some((line) => line.includes(`,'${TEAM},'${TEAM},`))).toBe(true);
    expect(lines.some((line) => /(^|,)[=+@-]/.test(line))).toBe(false);
    const header = (await ask(`/api/usage/export?month=${MONTH}`)).headers.get('content-disposition');
    expect(header).toBe(`attachment; filename="usage-${MONTH}.csv"`);
  });

  it('is refused with what is wrong', async () => {
    const command = cli(['usage', '--month', '2026-99', '--url', queue.url, '--token', 'root']);
    expect((await command.exited).code).not.toBe(0);
    expect(command.output()).toContain('month: expected a month such as 2026-11');
  });
});
