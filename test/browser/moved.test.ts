import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LedgerView } from '../../src/protocol/index.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
});
afterAll(tearDown);

/** Reads on until this is there. @returns what came */
async function readUntil(wanted: RegExp, reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for (let isDone = false; !wanted.test(text) && !isDone; ) {
    const { value, done } = await reader.read();
    text += decoder.decode(value, { stream: true });
    isDone = done;
  }
  return text;
}

it('tells of a request from which worker its answer moved, at which token, and why', async () => {
  const start = (id: string) =>
    readyWorker(queue.url, id, {
      engineArgs: '--inter-token-latency-ms 100',
      env: { CASOLA_SHUTDOWN_GRACE_PERIOD: '2', CASOLA_MAX_JOBS: '4' },
    });
  const workers = { one: await start('one'), other: await start('other') };
  const answer = await fetch(`${queue.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'tiny',
      messages: [{ role: 'user', content: 'Tell me something.' }],
      stream: true,
      ignore_eos: true,
      max_tokens: 400,
    }),
  });
  const path = `/jobs/${answer.headers.get('x-job-id')}`;
  const reader = answer.body!.getReader();
  await readUntil(/"content":"[^"]/, reader);
  const { steps } = (await (await fetch(`${queue.url}/api${path}/ledger`)).json()) as LedgerView;
  const [leaving, staying] = steps.some(({ worker_id }) => worker_id === 'one')
    ? (['one', 'other'] as const)
    : (['other', 'one'] as const);
  process.kill(workers[leaving].process.pid, 'SIGTERM');
  const { page, faults, close } = await openPage();
  await page.goto(`${queue.url}${path}`);
  await page.getByText(new RegExp(`Moved from ${leaving} at token \\d+: .*draining`)).waitFor();
  await page.getByRole('link', { name: staying }).first().waitFor();
  // The caller had read of it before.
  const first = page.locator('figure.timeline li').filter({ hasText: 'Attempt 1' });
  await first.getByText(/to its first token .*, the rest of the answer .* · Moved from/).waitFor();
  expect(await readUntil(/\[DONE\]/, reader)).toContain('[DONE]');
  await page.getByText('succeeded: ').first().waitFor();
  // Its figures too, without a reload, though they are listed a moment after its end.
  await page.locator('dl.facts').getByText('/v1/chat/completions').waitFor();
  // A request is no stored job, for which the page asks as well, but once.
  expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  expect(faults).toHaveLength(1);
  await close();
});

it('tells of a request and of its pool how much of prompts a worker was supposed to have', async () => {
  const config_id = 'asked-twice';
  await readyWorker(queue.url, 'third', { env: { CASOLA_CONFIG_ID: config_id } });
  const ask = async () => {
    const answer = await fetch(`${queue.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        model: config_id,
        messages: [{ role: 'user', content: 'Tell me something long. '.repeat(100) }],
        max_tokens: 2,
      }),
    });
    expect(answer.status, await answer.text()).toBe(200);
    return answer.headers.get('x-job-id');
  };
  await ask();
  const again = await ask();
  const { page, close } = await openPage();
  await page.goto(`${queue.url}/jobs/${again}`);
  await page
    .getByText(/; cached: [1-9]\d* predicted, \d+ seen/)
    .first()
    .waitFor();
  await page.goto(`${queue.url}/queue?range=hour`);
  const pool = page.getByRole('article').filter({ hasText: config_id });
  const figure = (name: string) =>
    pool.locator('dl.rates div').filter({ has: page.getByText(name, { exact: true }) });
  await figure('Cached, predicted')
    .getByText(/^[1-9]\d* %$/)
    .waitFor();
  await figure('Cached')
    .getByText(/^\d+ %$/)
    .waitFor();
  await close();
});
