import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** A worker's page: what it and its engine said, and how it does beside the others of its pool. */
let queue: QueueProcess;
let open: OpenPage | null = null;

beforeAll(async () => {
  queue = await startQueue();
});
afterEach(async () => {
  await open?.close();
  open = null;
});
afterAll(tearDown);

async function show(path: string): Promise<Page> {
  open = await openPage();
  await open.page.goto(`${queue.url}/${path}`);
  return open.page;
}

async function post(path: string, body: object): Promise<void> {
  const { ok, status } = await fetch(`${queue.url}/api/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  if (!ok) throw new Error(`${path}: ${status}`);
}

const START = Date.UTC(2026, 10, 25, 3) / 1000;

/** Lines of a worker. @param from number of the first one, which its message has */
async function say(instance_id: string, from: number, count: number): Promise<void> {
  const entries = Array.from({ length: count }, (_, i) => {
    const n = from + i;
    const level = n % 400 === 7 ? 'error' : n % 50 === 7 ? 'warning' : 'info';
    return { timestamp: START + n, level, source: 'vllm', message: `\u001b[32mline ${n}\u001b[0m is said` };
  });
  await post('logs', { instance_id, entries });
}

const heartbeat = (instance_id: string, more: object) =>
  post('heartbeats', { instance_id, config_id: 'cfg', ...more });

it('searches all lines that are kept, filters their levels, and downloads what it shows', async () => {
  await heartbeat('talks', { status: 'starting' });
  await say('talks', 0, 1000);
  await say('talks', 1000, 300);
  const page = await show('workers/talks');
  await page.getByText('1,300 lines').waitFor();
  const lines = page.getByRole('region', { name: 'Lines of the log' }).getByRole('listitem');
  await lines.filter({ hasText: 'line 1299 is said' }).waitFor();
  await page.getByText('800 earlier lines').waitFor();
  expect(await lines.count()).toBe(500);

  // The first line is not among those in the document.
  await page.getByRole('searchbox', { name: 'Find in the log' }).fill('LINE 12');
  await page.getByText('111 of 1,300 lines').waitFor();
  await lines.filter({ hasText: 'line 12 is said' }).waitFor();
  expect(await page.locator('mark').first().textContent()).toBe('line 12');
  await page.getByRole('combobox', { name: 'Levels' }).selectOption('Warnings and errors');
  await page.getByText('2 of 1,300 lines').waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByRole('combobox', { name: 'Levels' }).selectOption('Errors');
  await page.getByText('1 of 1,300 lines').waitFor();
  // A link shows somebody else the same.
  await page.reload();
  await page.getByText('1 of 1,300 lines').waitFor();

  const [saved] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download' }).click(),
  ]);
  expect(saved.suggestedFilename()).toBe('talks.log');
  expect(readFileSync(await saved.path(), 'utf8')).toBe(
    '2026-11-25T03:20:07.000Z error vllm line 1207 is said\n',
  );
  await page.getByRole('searchbox', { name: 'Find in the log' }).fill('no such words');
  await page.getByText('No line fits.').waitFor();
  expect(await page.getByRole('button', { name: 'Download' }).isDisabled()).toBe(true);
  expect(open!.faults).toEqual([]);
});

it('follows what is said, until it is scrolled up, and again when asked to', async () => {
  await heartbeat('follows', { status: 'starting' });
  await say('follows', 0, 200);
  const page = await show('workers/follows');
  const box = page.getByRole('region', { name: 'Lines of the log' });
  const line = (n: number) => box.getByText(`line ${n} is said`, { exact: true });
  const follow = page.getByRole('button', { name: 'Follow' });
  const isInView = (n: number) => async () => {
    const [outer, inner] = [await box.boundingBox(), await line(n).boundingBox()];
    return inner!.y >= outer!.y && inner!.y < outer!.y + outer!.height;
  };
  await line(199).waitFor();
  await expect.poll(isInView(199)).toBe(true);
  await say('follows', 200, 1);
  await line(200).waitFor();
  await expect.poll(isInView(200)).toBe(true);

  // By the keyboard.
  await box.focus();
  await page.keyboard.press('Home');
  await expect.poll(() => follow.getAttribute('aria-pressed')).toBe('false');
  await say('follows', 201, 1);
  await line(201).waitFor();
  expect(await isInView(201)()).toBe(false);
  await follow.click();
  await expect.poll(isInView(201)).toBe(true);
});

it('stays where somebody scrolls to as its lines come', async () => {
  await heartbeat('scrolled', { status: 'starting' });
  await say('scrolled', 0, 200);
  open = await openPage();
  const { page } = open;
  // Before the browser has told the page of any scroll: as the first lines are there.
  await page.addInitScript(`new MutationObserver((_changes, seen) => {
    const box = document.querySelector('.log');
    if (!box || box.scrollTop === 0) return;
    seen.disconnect();
    box.scrollTop = 0;
  }).observe(document, { childList: true, subtree: true })`);
  await page.goto(`${queue.url}/workers/scrolled`);
  const follow = page.getByRole('button', { name: 'Follow' });
  await expect.poll(() => follow.getAttribute('aria-pressed')).toBe('false');
});

it('shows the log first on the page of a worker that failed', async () => {
  const first = async (id: string) => {
    const page = await show(`workers/${id}`);
    await page.getByRole('heading', { name: 'Log' }).waitFor();
    const headings = await page.locator('main h2').allTextContents();
    await open!.close();
    return headings.indexOf('Log') < headings.indexOf('Load');
  };
  for (const id of ['failed', 'starts']) await say(id, 0, 3);
  await heartbeat('failed', { status: 'error', error_message: 'CUDA out of memory' });
  await heartbeat('starts', { status: 'starting' });
  expect(await first('failed')).toBe(true);
  expect(await first('starts')).toBe(false);
});

it('says how much slower than the rest of its pool a worker is, and of how many requests', async () => {
  const pool = { CASOLA_CONFIG_ID: 'pair', VLLM_MODEL: 'paired', CASOLA_MAX_JOBS: '4' };
  await readyWorker(queue.url, 'quick', { env: pool, engineArgs: '--inter-token-latency-ms 5' });
  await readyWorker(queue.url, 'slow', { env: pool, engineArgs: '--inter-token-latency-ms 60' });
  const messages = [{ role: 'user', content: 'Say something.' }];
  const body = JSON.stringify({ model: 'paired', messages, max_tokens: 10, ignore_eos: true, stream: true });
  const ask = async () =>
    await (await fetch(`${queue.url}/v1/chat/completions`, { method: 'POST', body })).text();
  const countOf = async () => {
    const answer = await fetch(`${queue.url}/api/requests?worker_id=slow`);
    return ((await answer.json()) as { requests: object[] }).requests.length;
  };
  // As many as tell the one from the other, however they are spread.
  while ((await countOf()) < 12) await Promise.all(Array.from({ length: 8 }, ask));

  const page = await show('workers/slow');
  const table = page.getByRole('region', { name: 'Beside its pool' });
  const row = table.getByRole('row', { name: /^Between tokens/ });
  await row.getByText(/^\d+\.?\d* times the pool’s$/).waitFor();
  expect(Number.parseFloat((await row.getByRole('cell').last().textContent())!)).toBeGreaterThan(1.5);
  expect(await row.getByRole('cell').last().getAttribute('class')).toBe('warn');
  expect(await row.getByRole('cell').nth(1).textContent()).toMatch(/^\d{2,3}$/);
  await table.getByRole('row', { name: /^Failed 0 % \d+ 0 % \d+ as the pool$/ }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(open!.faults).toEqual([]);
});
