import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { OpenPage } from '../support/browser.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** Charts of what happened, over the road as users start it. */
let queue: QueueProcess;
let open: OpenPage;
let page: Page;

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w-1');
  const messages = [{ role: 'user', content: 'Say hello.' }];
  const body = JSON.stringify({ model: 'tiny', messages, stream: true, max_tokens: 8 });
  const headers = { 'content-type': 'application/json' };
  await (await fetch(`${queue.url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
});
beforeEach(async () => {
  await open?.close();
  open = await openPage();
  page = open.page;
});
afterAll(tearDown);

const chart = (name: string) => page.getByRole('figure', { name: new RegExp(`^${name}`) });

it('shows the same moment in all charts, and opens the requests of a span that is dragged over', async () => {
  await page.goto(`${queue.url}/queue?over=15m`);
  await page.getByRole('heading', { name: 'Over time' }).scrollIntoViewIfNeeded();
  const first = chart('Requests a second').locator('.u-over');
  await first.waitFor();
  await page.getByText('w-1 is ready after', { exact: false }).waitFor();
  // Each line has an entry in the legend, which tells it from the others without its colour, and so has each mark.
  const figures = page.locator('.over-time .chart', { has: page.locator('.u-over') });
  for (const figure of await figures.all()) {
    const lines = await figure.locator('.unseen thead th:not(:first-child)').allTextContents();
    const keys = await figure
      .locator('.legend .key')
      .evaluateAll((all) => all.map(({ classList }) => classList[1]));
    expect((await figure.locator('.legend dt').allTextContents()).map((name) => name.trim())).toEqual(lines);
    const areStacked = keys.every((key) => key === keys[0]);
    expect([lines, areStacked || new Set(keys).size === keys.length]).toEqual([lines, true]);
  }
  await page.locator('.mark-key', { hasText: 'worker ready' }).locator('svg.full').waitFor();
  const times = page.locator('.over-time figcaption time');
  expect(await times.count()).toBe(0);
  await first.hover();
  await expect.poll(() => times.count()).toBeGreaterThan(3);
  await expect.poll(async () => new Set(await times.allTextContents()).size).toBeLessThanOrEqual(2);
  const box = (await first.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.2, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 2, box.y + 30, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/\/requests\?since=.*&until=/);
  await page.getByRole('heading', { name: 'Requests' }).waitFor();
  await page.goBack();
  await page.getByRole('heading', { name: 'Over time' }).waitFor();
  expect(open.faults).toEqual([]);
});

it('leads from a pool to its model, and from there to the requests of that time', async () => {
  await page.goto(`${queue.url}/queue`);
  await page.getByRole('link', { name: 'tiny' }).first().click();
  await page.getByRole('heading', { name: 'Over time, tiny' }).scrollIntoViewIfNeeded();
  await chart('Time to the first token').waitFor();
  await page.getByRole('button', { name: '7 days' }).click();
  await page.waitForURL(/over=7d/);
  await page.getByRole('link', { name: 'Requests of this time' }).click();
  await page.waitForURL(/\/requests\?since=.*&model=tiny/);
  await page
    .getByRole('row', { name: /Succeeded/ })
    .first()
    .waitFor();
  expect(open.faults).toEqual([]);
});
