import type { Locator, Page } from 'playwright-core';
import { afterAll, afterEach, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { until } from '../support/poll.ts';
import { startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** What a phone and a laptop show, and what stands there of a start that failed. */
let open: OpenPage | null = null;

afterEach(async () => {
  await open?.close();
  open = null;
});
afterAll(tearDown);

const PHONE = { width: 390, height: 844 };

async function boxOf(locator: Locator) {
  const box = await locator.boundingBox();
  if (box === null) throw new Error('it is not shown');
  return { ...box, right: box.x + box.width };
}

/** Returns the controls that are less than a finger's height, but for links within text and heads of tables. */
async function tooSmall(page: Page): Promise<string[]> {
  const controls =
    'main :is(button, .button, input:not([type=checkbox]), select, summary), header :is(button, input), tr[data-href]';
  return (await page.evaluate(`[...document.querySelectorAll(${JSON.stringify(controls)})]
    .filter((one) => one.checkVisibility() && !one.closest('th') && one.getBoundingClientRect().height < 40)
    .map((one) => one.outerHTML)`)) as string[];
}

it('says that a token is asked for, and shows all views, ages and failed starts whole on a phone', async () => {
  const { url } = await startQueue({ env: { QUEUE_TOKENS: 'admin:root,worker:workers-token' } });
  const began = Date.now() - 3 * 3_600_000;
  const beat = await fetch(`${url}/api/heartbeats`, {
    method: 'POST',
    headers: { authorization: 'Bearer workers-token' },
    body: JSON.stringify({
      instance_id: 'broken',
      status: 'fatal',
      error_message: 'no GPU',
      config_id: 'llama',
      interval_seconds: 600,
      start: { created_ms: began, engine_started_ms: began + 4000 },
    }),
  });
  expect(beat.status).toBe(200);
  open = await openPage({ viewport: PHONE, hasTouch: true, isMobile: true });
  const { page } = open;
  await page.goto(url);
  await page.getByText('Sign in to see the fleet.').waitFor();
  expect(await page.getByText('Asking the queue').count()).toBe(0);
  await page.getByLabel('Token').fill('root');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const problem = page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem');
  const age = problem.getByRole('time');
  const button = await boxOf(problem.getByRole('button', { name: 'Acknowledge' }));
  expect((await boxOf(age)).right).toBeLessThanOrEqual(button.x);
  expect(await age.evaluate((time) => time.scrollWidth - time.clientWidth), 'it has its room').toBe(0);

  // The button of the menu names the open view; every view is a finger's height, and reached by keyboard.
  const menu = page.getByRole('button', { name: 'Views: Fleet' });
  const views = page.getByRole('navigation', { name: 'Views' });
  expect(await views.isVisible()).toBe(false);
  await menu.focus();
  await page.keyboard.press('Enter');
  for (const link of await views.getByRole('link').all()) {
    const box = await boxOf(link);
    expect([box.height >= 40, box.right <= PHONE.width]).toEqual([true, true]);
  }
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press('Escape');
  await views.waitFor({ state: 'hidden' });
  expect(new URL(page.url()).pathname, 'Esc closes the menu alone').toBe('/');
  await menu.click();
  await views.getByRole('link', { name: 'Audit' }).click();
  await page.getByRole('heading', { name: 'Audit' }).waitFor();
  await page.evaluate('scrollTo(0, 1e6)');
  const bar = await boxOf(page.getByRole('button', { name: 'Views: Audit' }));
  expect([bar.y >= 0, bar.right <= PHONE.width, await views.isVisible()]).toEqual([true, true, false]);
  expect(await tooSmall(page)).toEqual([]);

  await page.goto(`${url}/workers/broken`);
  const steps = page.getByRole('region', { name: 'Start of the container' }).getByRole('listitem');
  await steps.last().getByText('Loading weights: ended').waitFor();
  expect(await steps.last().getAttribute('class')).toBe('failed');
  expect(await accessibilityFaults(page)).toEqual([]);
});

it('shows six workers in the window of a laptop, below what needs attention and the launches', async () => {
  const { url } = await startQueue();
  const post = async (path: string, body: object) =>
    expect((await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) })).status).toBe(200);
  const machines = [{ provider: 'runpod', instance_type: 'NVIDIA L40S', price_per_hour: 1 }];
  const pools = { chat: { model: 'org/tiny', max: 1, machines } };
  await post('/api/fleet/spec', { spec: { providers: { runpod: { driver: 'runpod' } }, pools } });
  for (const id of ['a', 'b', 'c', 'd', 'e', 'f'])
    await post('/api/heartbeats', {
      instance_id: id,
      status: 'fatal',
      error_message: 'no GPU',
      config_id: 'chat',
      interval_seconds: 600,
    });
  open = await openPage({ viewport: { width: 1280, height: 720 } });
  const { page } = open;
  await page.goto(url);
  await page.getByRole('heading', { name: /^Launches/ }).waitFor();
  const rows = page.getByRole('table', { name: 'Workers' }).locator('tbody tr[data-id]');
  await until(async () => (await rows.count()) >= 6, 'the workers are there');
  const sixth = await boxOf(rows.nth(5));
  expect(sixth.y + sixth.height).toBeLessThanOrEqual(720);
});

it('shows as many fields as its width has room for when a tablet is turned', async () => {
  const { url } = await startQueue();
  open = await openPage({ viewport: { width: 600, height: 960 } });
  const { page } = open;
  await page.goto(`${url}/requests`);
  const form = page.getByRole('form', { name: 'Filters' });
  const shown = () => form.locator('select, input').filter({ visible: true }).count();
  await form.getByText('More filters').waitFor();
  expect(await shown()).toBe(3);
  await page.setViewportSize({ width: 960, height: 600 });
  await form.getByLabel('Pool').waitFor();
  expect(await shown()).toBe(7);
});
