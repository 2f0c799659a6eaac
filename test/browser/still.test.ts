import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, it } from 'vitest';
import { type DemoFleet, startDemoFleet } from '../../scripts/demo-fleet.ts';
import { startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** Rows stay where they are while somebody reads them, under the load of the made-up fleet. */
let fleet: DemoFleet;
let url: string;

const WATCHED_MS = 30_000;
/** What Chromium calls good: https://web.dev/articles/cls has 0.1 for a whole visit. */
const MOST_SHIFT = 0.05;

beforeAll(async () => {
  ({ url } = await startQueue());
  fleet = startDemoFleet({ url, token: undefined });
  await fleet.settled;
});
afterAll(async () => {
  await fleet.stop();
  await tearDown();
});

/** Sum of the shifts while nobody does anything, and what moved most, with how far down. */
function watchShifts(page: Page): Promise<{ sum: number; moved: string[] }> {
  return page.evaluate(`new Promise((done) => {
    const moved = {};
    let sum = 0;
    const shifts = new PerformanceObserver((list) => {
      for (const { value, sources } of list.getEntries()) {
        sum += value;
        for (const { node, previousRect, currentRect } of sources) {
          const element = node?.nodeType === Node.ELEMENT_NODE ? node : node?.parentElement;
          const by = Math.round(currentRect.y - previousRect.y) + ' px';
          const name = element ? element.tagName + '.' + element.className + ' by ' + by : 'gone';
          moved[name] = (moved[name] ?? 0) + value / sources.length;
        }
      }
    });
    shifts.observe({ type: 'layout-shift' });
    setTimeout(() => {
      shifts.disconnect();
      const worst = Object.entries(moved).sort((a, b) => b[1] - a[1]);
      done({ sum, moved: worst.slice(0, 4).map(([name, value]) => name + ' ' + value.toFixed(4)) });
    }, ${WATCHED_MS});
  })`);
}

/** Rests the pointer on the third row, whether or not rows come and go meanwhile. */
async function pointAt(page: Page, rows: string): Promise<void> {
  const row = page.locator(rows).nth(2);
  const { x, y } = await row.evaluate((element) => {
    element.scrollIntoView({ block: 'nearest' });
    const box = element.getBoundingClientRect();
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  });
  await page.mouse.move(x, y);
}

/** What the pointer rests on, of what each view is about: on the fleet not a launch, which goes. */
const POINTED_AT: [path: string, rows: string][] = [
  ['', 'table[aria-label="Workers"] tr[data-id]'],
  ['queue', 'article'],
  ['requests', 'tbody tr[data-id]'],
  ['jobs', 'tbody tr[data-id]'],
];

// Beside each other: each watches for half a minute a page that nobody touches.
it.concurrent.for(POINTED_AT)('nothing moves under the pointer on /%s', async ([path, rows], { expect }) => {
  const { page, close } = await openPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(`${url}/${path}`);
  await pointAt(page, rows);
  // What has just been opened may still come to rest.
  await sleep(3000);
  const { sum, moved } = await watchShifts(page);
  expect.soft(sum, moved.join(', ')).toBeLessThan(MOST_SHIFT);
  await close();
});

it('calls a worker by one name', async () => {
  const { page, close } = await openPage();
  await page.goto(`${url}/`);
  const worker = page.getByRole('table', { name: 'Workers', exact: true }).locator('a.id').first();
  const name = await worker.textContent();
  await worker.click();
  await page.getByRole('heading', { level: 1, name: name! }).waitFor();
  await close();
});
