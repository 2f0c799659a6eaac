import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  chatJob,
  type QueueProcess,
  readyWorker,
  settled,
  startQueue,
  submit,
  tearDown,
} from '../support/road.ts';
import { openPage } from './page.ts';

/** The page without a pointer. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w-1', { env: { CASOLA_HEARTBEAT_INTERVAL: '1' } });
  await submit(queue.url, chatJob(20, { id: 'done-1' }));
  await settled(queue.url, 'done-1');
});
afterAll(tearDown);

const VIEWS = [
  '',
  'workers/w-1',
  'queue',
  'requests',
  'jobs',
  'jobs/done-1',
  'batches',
  'spend',
  'tokens',
  'audit',
  'usage',
  'try',
];

/** More than any view has controls. */
const MOST_TABS = 200;

/** All that can be used, by what it is; those that a click is needed to see are left out. Noted in the page as well. */
const NOTE_CONTROLS = `(() => {
  const all = 'a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary, [tabindex="0"]';
  const shown = [...document.querySelectorAll(all)].filter((one) =>
    one.checkVisibility({ visibilityProperty: true }) && one.closest('dialog:not([open]), [inert]') === null);
  globalThis.controls = shown;
  return shown.map((one) => one.outerHTML.slice(0, 120));
})()`;
/** Which of them has the focus, and whether that is seen; null: none of them. */
const FOCUSED = `(() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const { outlineStyle, outlineWidth } = getComputedStyle(one);
  const number = globalThis.controls.indexOf(one);
  return { number, isSeen: outlineStyle !== 'none' && outlineWidth !== '0px', html: one.outerHTML.slice(0, 120) };
})()`;

async function opened(path: string): Promise<{ page: Page; close(): Promise<void> }> {
  const { page, close } = await openPage();
  await page.goto(`${queue.url}/${path}`);
  await page.getByText('Live', { exact: false }).first().waitFor();
  await page.locator('main h1, main .notice').first().waitFor();
  return { page, close };
}

it.each(VIEWS)('/%s: every control is reached by Tab, and seen to have the focus', async (path) => {
  const { page, close } = await opened(path);
  const controls = (await page.evaluate(NOTE_CONTROLS)) as string[];
  expect(controls.length).toBeGreaterThan(10);
  const reached = new Set<number>();
  const unseen: string[] = [];
  for (let tab = 0; tab < MOST_TABS; tab += 1) {
    await page.keyboard.press('Tab');
    const focused = (await page.evaluate(FOCUSED)) as {
      number: number;
      isSeen: boolean;
      html: string;
    } | null;
    if (focused === null || reached.has(focused.number)) {
      if (reached.size >= controls.length || focused === null) break;
      continue;
    }
    if (!focused.isSeen) unseen.push(focused.html);
    if (focused.number >= 0) reached.add(focused.number);
  }
  // What was drawn anew meanwhile is another element: it is there no more.
  const gone = (await page.evaluate('globalThis.controls.map((one) => !one.isConnected)')) as boolean[];
  expect(controls.filter((_, number) => !reached.has(number) && !gone[number])).toEqual([]);
  expect(unseen).toEqual([]);
  await close();
});

it('goes to every view by two keys, which the help lists', async () => {
  const { page, close } = await opened('');
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await help.waitFor();
  const views = await page.getByRole('navigation', { name: 'Views', includeHidden: true }).locator('a').all();
  const names = await Promise.all(views.map(async (view) => (await view.textContent())!.toLowerCase()));
  const rows = await help.locator('.shortcuts > div').all();
  const listed = new Map<string, string>();
  for (const row of rows) {
    const keys = await row.locator('kbd').allTextContents();
    if (keys[0] === 'g') listed.set((await row.locator('dd').textContent())!, keys[1]!);
  }
  expect([...listed.keys()]).toEqual(expect.arrayContaining(names));
  await page.keyboard.press('Escape');
  await help.waitFor({ state: 'hidden' });
  for (const name of names) {
    await page.keyboard.press('g');
    await page.keyboard.press(listed.get(name)!);
    const current = page.locator('nav[aria-label="Views"] a[aria-current=page]');
    await expect.poll(async () => (await current.textContent())?.toLowerCase()).toBe(name);
  }
  await close();
});

it('moves the cursor of a chart by its arrows, and opens the requests of that time', async () => {
  const { page, close } = await opened('');
  const chart = page.getByRole('slider', { name: 'Waiting and running, time' });
  await chart.focus();
  const newest = Number(await chart.getAttribute('aria-valuenow'));
  await page.locator('.chart .u-over').first().waitFor();
  await page.keyboard.press('ArrowLeft');
  await expect.poll(() => chart.getAttribute('aria-valuenow')).toBe(String(newest - 1));
  expect(await chart.getAttribute('aria-valuetext')).toMatch(
    /^\d\d:\d\d:\d\d .*: running .*, slots .*, waiting/,
  );
  // The cursors of all charts go together.
  await expect.poll(() => page.locator('.chart .u-cursor-x').nth(1).isVisible()).toBe(true);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Requests' }).waitFor();
  expect(new URL(page.url()).searchParams.has('since')).toBe(true);
  await close();
});
