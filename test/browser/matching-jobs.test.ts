import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launchBrowser } from '../../scripts/browser/setup.ts';
import { openPage } from '../support/browser.ts';
import { chatJob, type QueueProcess, startQueue, tearDown } from '../support/road.ts';

/** What is done from the page to all jobs that match its filters. */
let browser: Browser;
let queue: QueueProcess;

beforeAll(async () => {
  browser = await launchBrowser();
  queue = await startQueue();
});
afterAll(async () => {
  await browser.close();
  await tearDown();
});

it('says how many jobs match and which, then cancels these and no other', async () => {
  const jobs = ['many-1', 'many-2', 'many-3', 'other'].map((id) => ({
    ...chatJob(1, { id }),
    config_id: 'idle',
  }));
  await fetch(`${queue.url}/api/jobs`, { method: 'POST', body: JSON.stringify(jobs) });
  const { page, faults, close } = await openPage(browser);
  await page.goto(`${queue.url}/jobs`);
  await page.getByRole('row', { name: /other/ }).waitFor();
  expect(await page.getByRole('button', { name: /all that match/ }).count()).toBe(0);

  await page.goto(`${queue.url}/jobs?id=many-`);
  await page.getByRole('button', { name: 'Cancel all that match' }).click();
  const dialog = page.getByRole('dialog', { name: 'Cancel all that match' });
  await dialog.getByText('3 jobs wait or run, and would be cancelled.').waitFor();
  await dialog.getByText('many-1, many-2, many-3').waitFor();
  const folder = process.env.PICTURES;
  if (folder) {
    for (const scheme of ['light', 'dark'] as const)
      for (const width of [1440, 390]) {
        await page.emulateMedia({ colorScheme: scheme });
        await page.setViewportSize({ width, height: 900 });
        await page.screenshot({ path: `${folder}/matching-${scheme}-${width}.png` });
      }
  }
  await dialog.getByRole('button', { name: 'Cancel 3 jobs now' }).click();
  await dialog.getByText('3 jobs were cancelled.').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();

  const stateOf = async (id: string) => (await (await fetch(`${queue.url}/api/jobs/${id}`)).json()) as object;
  expect(await stateOf('many-2')).toMatchObject({ state: 'cancelled' });
  expect(await stateOf('other')).toMatchObject({ state: 'pending' });

  await page.goto(`${queue.url}/jobs?state=cancelled`);
  await page.getByRole('row', { name: /many-2/ }).waitFor();
  expect(await page.getByRole('button', { name: /all that match/ }).count()).toBe(0);
  expect(faults).toEqual([]);
  await close();
}, 120_000);
