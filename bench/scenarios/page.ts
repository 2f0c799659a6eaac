import type { Browser, Page } from 'playwright-core';
import { beatingWorkers } from '../../scripts/beating-workers.ts';
import { launchBrowser } from '../../scripts/browser/setup.ts';
import { writeFleetDatabase } from '../../scripts/demo/history.ts';
import { startDemoFleet } from '../../scripts/demo-fleet.ts';
import { Requests } from '../../src/fleet/requests.ts';
import { openPage } from '../../test/support/browser.ts';
import { until } from '../../test/support/poll.ts';
import { ended } from '../../test/support/request-records.ts';
import { type QueueProcess, startQueue } from '../../test/support/road.ts';
import { type Effort, scaled } from '../effort.ts';
import { firstView } from '../page/first-view.ts';
import { scroll, type Tasks, tasksWhile } from '../page/tasks.ts';
import { costOfViewers } from '../page/viewers.ts';
import type { Figure } from '../report.ts';
import { processOf } from '../road.ts';

const VIEWERS = 10;
const MANY_WORKERS = 500;
const MANY_REQUESTS = 100_000;
const INTERVAL_MS = 10_000;

/** The page in a real browser, and what it costs the queue: over the made-up fleet of 20 workers, then over many. */
export async function page(effort: Effort): Promise<Figure[]> {
  const browser = await launchBrowser();
  try {
    return [...(await overDemoFleet(browser, effort)), ...(await overMany(browser, effort))];
  } finally {
    await browser.close();
  }
}

async function overDemoFleet(browser: Browser, effort: Effort): Promise<Figure[]> {
  const queue = await startQueue();
  const fleet = startDemoFleet({ url: queue.url, token: undefined });
  try {
    await fleet.settled;
    const views = await inTurn(effort.rounds, () => firstView(browser, queue.url));
    const live = await inTurn(effort.rounds, (round) => untilSeen(browser, queue.url, round));
    const { percents, kilobytes } = await costOfViewers(queue.url, processOf(queue), VIEWERS, effort.rounds);
    return [
      figure(
        'first view, 20 workers',
        'ms',
        500,
        views.map(({ ms }) => ms),
      ),
      figure(
        'first view, processor time of the page',
        'ms',
        null,
        views.map(({ tasks }) => tasks.sumMs),
      ),
      figure(
        'first view, over the network',
        'kB',
        120,
        views.map(({ bytes }) => bytes / 1000),
      ),
      figure('from a heartbeat to the page', 'ms', 1200, live),
      figure(`queue with ${VIEWERS} viewers less with none, 20 workers under load`, '%', 5, percents),
      figure('sent to a viewer, 20 workers under load', 'kB/s', null, [kilobytes]),
    ];
  } finally {
    await fleet.stop();
    await queue.process.stop();
  }
}

async function overMany(browser: Browser, effort: Effort): Promise<Figure[]> {
  const queue = await startWithRequests(scaled(MANY_REQUESTS, effort));
  const stopped = new AbortController();
  const beating = beatingWorkers(queue.url, MANY_WORKERS, INTERVAL_MS, stopped.signal);
  // Told when it is waited for.
  beating.catch(() => {});
  try {
    await until(async () => {
      const view = (await (await fetch(`${queue.url}/api/fleet`)).json()) as { workers: unknown[] };
      return view.workers.length === MANY_WORKERS;
    }, 'all workers to be known');
    const fleetTasks = await inTurn(effort.rounds, () => scrolled(browser, `${queue.url}/`));
    const requestTasks = await inTurn(effort.rounds, () => scrolled(browser, `${queue.url}/requests`, older));
    const { percents, kilobytes } = await costOfViewers(queue.url, processOf(queue), VIEWERS, effort.rounds);
    return [
      ...figuresOf(`${MANY_WORKERS} workers, scrolled`, fleetTasks),
      ...figuresOf('100,000 requests, scrolled', requestTasks),
      figure(`queue with ${VIEWERS} viewers less with none, ${MANY_WORKERS} workers`, '%', 5, percents),
      figure(`sent to a viewer, ${MANY_WORKERS} workers`, 'kB/s', null, [kilobytes]),
    ];
  } finally {
    stopped.abort();
    await beating.catch(() => {});
    await queue.process.stop();
  }
}

/** A queue that so many requests have ended on, half of them failed: all that it keeps. */
async function startWithRequests(count: number): Promise<QueueProcess> {
  const first = await startQueue();
  await fetch(`${first.url}/api/fleet`);
  await first.process.stop();
  const now = Date.now();
  const records = Array.from({ length: count }, (_, n) => ({
    ...ended(`request-${n}`, { submitted_at: now - count + n - 1000, ended_at: now - count + n }),
    ...(n % 2 === 0 && { outcome: 'failed' as const, error_code: 'engine_error', error: 'The engine died.' }),
  }));
  writeFleetDatabase(first.stateDir, (sql) => new Requests(sql).add(records));
  return await startQueue({ port: first.port, stateDir: first.stateDir });
}

/** From the heartbeat of a worker that nobody knew to its row, ms, on a page that was there before. */
async function untilSeen(browser: Browser, url: string, round: number): Promise<number> {
  const { page, close } = await openPage(browser, { viewport: { width: 1440, height: 900 } });
  const id = `a-new-one-${round}`;
  await page.goto(url);
  await page.locator('tbody tr[data-id]').first().waitFor();
  const seen = page.evaluate(`new Promise((done) => {
    const watched = new MutationObserver(() => {
      if (!document.querySelector('tbody tr[data-id="${id}"]')) return;
      watched.disconnect();
      requestAnimationFrame(() => setTimeout(() => done(Date.now())));
    });
    watched.observe(document, { childList: true, subtree: true });
  })`);
  const body = JSON.stringify({
    instance_id: id,
    config_id: 'llama-8b',
    status: 'error',
    error_message: 'x',
  });
  const began = Date.now();
  const response = await fetch(`${url}/api/heartbeats`, { method: 'POST', body });
  if (!response.ok) throw new Error(await response.text());
  const at = (await seen) as number;
  await close();
  return at - began;
}

async function scrolled(
  browser: Browser,
  url: string,
  between?: (page: Page) => Promise<void>,
): Promise<Tasks> {
  const { page, close } = await openPage(browser, { viewport: { width: 1440, height: 900 } });
  await page.goto(url);
  await page.locator('tbody tr[data-id]').first().waitFor();
  const tasks = await tasksWhile(page, async () => {
    await scroll(page);
    await between?.(page);
    if (between) await scroll(page);
  });
  await close();
  return tasks;
}

/** Some pages more of the list. */
async function older(page: Page): Promise<void> {
  for (let pages = 0; pages < 3; pages++) {
    await page.getByRole('button', { name: /Older ones/ }).click();
    await page.getByRole('button', { name: /Older ones/ }).waitFor();
  }
}

function figuresOf(name: string, tasks: readonly Tasks[]): Figure[] {
  return [
    figure(
      `${name}: longest task, processor time`,
      'ms',
      16.7,
      tasks.map(({ longestMs }) => longestMs),
    ),
    figure(
      `${name}: tasks longer than a frame`,
      '',
      0,
      tasks.map(({ tooLong }) => tooLong),
    ),
  ];
}

function figure(name: string, unit: string, goal: number | null, rounds: number[]): Figure {
  return { group: 'page', name, unit, goal, rounds };
}

async function inTurn<T>(rounds: number, run: (round: number) => Promise<T>): Promise<T[]> {
  const found: T[] = [];
  for (let round = 0; round < rounds; round++) found.push(await run(round));
  return found;
}
