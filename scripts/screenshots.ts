import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { PING_TEXT } from '../src/protocol/index.ts';
import { openPage } from '../test/support/browser.ts';
import { until } from '../test/support/poll.ts';
import { closeRawWorkers, RawWorker } from '../test/support/raw-worker.ts';
import { startQueue, tearDown } from '../test/support/road.ts';
import { ensureBrowser, launchBrowser } from './browser/setup.ts';
import { commandLine } from './command-line.ts';
import { signedIn, startGuardedQueue } from './demo/guarded-queue.ts';
import { startDemoQueue } from './demo/queue.ts';
import { startDemoFleet } from './demo-fleet.ts';

/**
 * `node scripts/screenshots.ts [FOLDER]`: every view of the dashboard, of a fleet of 20 made-up workers under load, in
 * both themes, on a monitor, a laptop and a phone. To be looked at as a stranger would. Its `readme-fleet.png` and `readme-job.png` are
 * `fleet.png` and `job.png` of docs/images, its folder `views` is docs/images/views.
 */

const [FOLDER = ''] = commandLine(
  'node scripts/screenshots.ts',
  'takes pictures of every view of the dashboard, of a made-up fleet under load',
)
  .argument('[folder]', 'where they are put', '.worker-vllm/screenshots')
  .parse().processedArgs as string[];
/** A monitor, a laptop and a phone. */
const WIDE = { width: 1440, height: 900 };
const LAPTOP = { width: 1280, height: 720 };
/** Workers that are played frame by frame say that they are there this often. */
const PING_MS = 5000;
/** As the README has them. */
const SMALL = { width: 1280, height: 880 };
const PHONE = { width: 390, height: 844 };

/** Until numbers and charts of a view have come. */
const SETTLED_MS = 1500;

const LOOKS: Record<string, BrowserContextOptions> = {
  light: { colorScheme: 'light', viewport: WIDE },
  dark: { colorScheme: 'dark', viewport: WIDE },
  'laptop-light': { colorScheme: 'light', viewport: LAPTOP },
  'laptop-dark': { colorScheme: 'dark', viewport: LAPTOP },
  'phone-light': { colorScheme: 'light', viewport: PHONE, hasTouch: true },
  'phone-dark': { colorScheme: 'dark', viewport: PHONE, hasTouch: true },
};
/** The looks of the small picture of a view, row by row. */
const TOGETHER = ['light', 'phone-light', 'dark', 'phone-dark'];
/** The height of a look in it, px. */
const HALF = WIDE.height / 2;

/** A view, and what is to be done in it before it is looked at. */
interface Shot {
  name: string;
  path: string;
  prepare?(page: Page): Promise<void>;
}

async function main(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  await ensureBrowser();
  const browser = await launchBrowser();
  const empty = await startQueue();
  await shootAll(browser, empty.url, [{ name: 'empty', path: '' }]).finally(tearDown);
  const guarded = await startGuardedQueue();
  const storageState = await signedIn(browser, guarded);
  const forAdmins = ['tokens', 'alerts'].map((name) => ({ name, path: name }));
  await shootAll(browser, guarded.url, forAdmins, { storageState }).finally(tearDown);
  await guarded.stop();
  const queue = await startDemoQueue('0');
  const fleet = startDemoFleet({ url: queue.url, token: undefined });
  try {
    await fleet.settled;
    const failed = await troubledJob(queue.url);
    await startBatch(queue.url);
    // A minute's worth of courses and percentiles.
    await sleep(20_000);
    await shootAll(browser, queue.url, [
      { name: 'fleet', path: '' },
      { name: 'worker', path: `workers/${await workerWhere(queue.url, 'running')}` },
      { name: 'worker-loading', path: `workers/${await workerWhere(queue.url, 'loading')}` },
      { name: 'worker-failed', path: `workers/${await workerWhere(queue.url, 'error')}` },
      { name: 'queue', path: 'queue' },
      { name: 'over-time', path: 'queue?config_id=llama-8b', prepare: toCharts },
      { name: 'requests', path: 'requests' },
      { name: 'jobs', path: 'jobs' },
      { name: 'job', path: `jobs/${failed}` },
      { name: 'batches', path: 'batches' },
      { name: 'scaling', path: '', prepare: toScaling },
      { name: 'usage', path: 'usage?by=config_id' },
      { name: 'spend', path: 'spend' },
      { name: 'audit', path: 'audit' },
      { name: 'responses', path: 'responses' },
      { name: 'try', path: 'try', prepare: talk },
    ]);
    await shoot(browser, queue.url, [{ name: 'readme-fleet', path: '' }], {
      colorScheme: 'dark',
      viewport: SMALL,
    });
    await fleet.roll();
    await shootAll(browser, queue.url, [
      { name: 'rollout', path: 'queue?config_id=gemma-27b', prepare: toVersions },
    ]);
    await shoot(browser, queue.url, [{ name: 'readme-job', path: `jobs/${failed}` }], { viewport: SMALL });
  } finally {
    closeRawWorkers();
    await browser.close();
    await fleet.stop();
    await queue.stop();
  }
}

/** @param more of the browser, such as the cookie of somebody who is signed in */
async function shootAll(
  browser: Browser,
  url: string,
  shots: readonly Shot[],
  more: BrowserContextOptions = {},
): Promise<void> {
  for (const [look, options] of Object.entries(LOOKS)) {
    const named = shots.map((shot) => ({ ...shot, name: `${shot.name}-${look}` }));
    await shoot(browser, url, named, { ...options, ...more });
  }
  for (const { name } of shots) await putTogether(browser, name);
}

/** Puts the widest and the narrowest look of a view, in both themes, into one small picture. */
async function putTogether(browser: Browser, name: string): Promise<void> {
  const images = TOGETHER.map((look) => {
    const data = readFileSync(join(FOLDER, `${name}-${look}.png`), 'base64');
    return `<img height="${HALF}" src="data:image/png;base64,${data}">`;
  });
  const { page, close } = await openPage(browser);
  await page.setContent(
    `<div style="display: inline-grid; grid-template-columns: auto auto; gap: 8px; padding: 8px; background: #888">
      ${images.join('')}</div>`,
  );
  const path = join(FOLDER, 'views', `${name}.jpg`);
  await page.locator('div').screenshot({ path, type: 'jpeg', quality: 72 });
  await close();
}

async function shoot(browser: Browser, url: string, shots: readonly Shot[], options: BrowserContextOptions) {
  const { page, faults, close } = await openPage(browser, options);
  for (const { name, path, prepare } of shots) {
    await page.goto(`${url}/${path}`);
    await page.getByText('Live', { exact: false }).first().waitFor();
    await prepare?.(page);
    await sleep(SETTLED_MS);
    await page.screenshot({ path: join(FOLDER, `${name}.png`) });
    for (const fault of faults.splice(0)) console.error(`${name}: ${fault}`);
  }
  await close();
}

/** Shows what an admin is asked before a pool is changed by hand. To launch one is refused of a pool with all it may have. */
async function toScaling(page: Page): Promise<void> {
  await page.getByRole('button', { name: /^Change gemma/ }).click();
  await page.getByRole('button', { name: /^Drain all/ }).click();
  await page.getByRole('status').filter({ hasNotText: 'Asking' }).first().waitFor();
}

/** A rollout whose first new worker serves beside the old ones. */
async function toVersions(page: Page): Promise<void> {
  const wanted = page.locator('.versions tr').filter({ hasText: 'wanted' });
  await wanted.getByText(/\d ready/).waitFor({ timeout: 180_000 });
  await page.locator('.versions').evaluate((section) => section.scrollIntoView({ block: 'center' }));
}

async function toCharts(page: Page): Promise<void> {
  await page.getByRole('heading', { name: /^Over time/ }).scrollIntoViewIfNeeded();
  await page.locator('.chart .u-over').first().waitFor();
  await page.locator('.over-time').evaluate((section) => section.scrollIntoView());
}

async function talk(page: Page): Promise<void> {
  await page.getByLabel('Message').fill('What does a queue promise?');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('whole answer after').waitFor({ timeout: 60_000 });
}

/** Starts a batch that is under way while the views are looked at. */
async function startBatch(url: string): Promise<void> {
  const lines = Array.from({ length: 3000 }, (_, n) => {
    const messages = [{ role: 'user', content: `Translate sentence ${n}.` }];
    const body = { model: 'meta-llama/Llama-3.1-8B-Instruct', messages, max_tokens: 60 };
    return JSON.stringify({ custom_id: `sentence-${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([lines.join('\n')]), 'sentences.jsonl');
  const file = await posted(`${url}/v1/files`, form);
  const batch = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  await posted(`${url}/v1/batches`, JSON.stringify(batch));
}

async function posted(address: string, body: FormData | string): Promise<{ id: string }> {
  const response = await fetch(address, { method: 'POST', body });
  if (!response.ok) throw new Error(`${address}: ${await response.text()}`);
  return (await response.json()) as { id: string };
}

/** A job that two workers fail at before a third ends it. */
async function troubledJob(url: string): Promise<string> {
  const config_id = 'phi-4-reasoning';
  const workers = await Promise.all(
    ['runpod-8f3kq1z0', 'vast-55210713'].map(async (id) => {
      const instance = { id, models: ['microsoft/phi-4-reasoning'], boot_id: id };
      return await (await new RawWorker(url).connect()).register(id, { config_id, instance });
    }),
  );
  const beats = setInterval(() => {
    for (const worker of workers) worker.send(PING_TEXT);
  }, PING_MS);
  beats.unref();
  const id = '2026-nightly-evaluation-0042';
  const payload = { messages: [{ role: 'user', content: 'Summarise the report.' }], max_tokens: 400 };
  const body = JSON.stringify({ id, job_type: 'chat_completion', config_id, payload });
  await fetch(`${url}/api/jobs`, { method: 'POST', body });
  const taken = new Map<RawWorker, number>();
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const worker = await until(
      () => workers.find((one) => jobsOf(one) > (taken.get(one) ?? 0)),
      'the job is given to a worker',
      { timeoutMs: 60_000 },
    );
    const job = await worker.job(taken.get(worker) ?? 0);
    taken.set(worker, jobsOf(worker));
    await sleep(1200 + 900 * attempt);
    const of = { job_id: job.job_id, fence_token: job.fence_token };
    worker.send(
      [
        {
          type: 'job_error',
          ...of,
          error: 'CUDA error: an illegal memory access',
          code: 'engine_error',
          retryable: true,
        },
        {
          type: 'job_error',
          ...of,
          error: 'the engine ended while it ran this job',
          code: 'engine_died',
          retryable: true,
        },
        {
          type: 'job_result',
          ...of,
          result: { text: 'Done.' },
          timing: { started_ms: 40, first_token_ms: 620 },
        },
      ][attempt],
    );
  }
  return id;
}

function jobsOf({ frames }: RawWorker): number {
  return frames.filter(({ type }) => type === 'job').length;
}

async function workerWhere(url: string, state: string): Promise<string> {
  return await until(
    async () => {
      const { workers } = (await (await fetch(`${url}/api/fleet`)).json()) as {
        workers: { worker_id: string; state: string }[];
      };
      return workers.find((worker) => worker.state === state)?.worker_id;
    },
    `a worker is ${state}`,
    { timeoutMs: 180_000 },
  );
}

await main();
