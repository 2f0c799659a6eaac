import { afterEach, describe, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { RawWorker } from '../support/raw-worker.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { openPage } from './page.ts';

/** What stands on every view, the fleet, and one worker; each test has a queue of its own. */
const MANY = 1000;
const IN_VIEW_AT_MOST = 60;

/** What a busy browser does: a timer that is due comes later than the next frames. */
const SLOW_TIMER_MS = 500;
const SLOW_TIMERS = `{
  const start = setTimeout;
  globalThis.setTimeout = (call, ms = 0, ...rest) => start(call, Math.max(ms, ${SLOW_TIMER_MS}), ...rest);
}`;

let open: OpenPage;

const road = startTestQueue();
afterEach(() => open.close());

/** The page of the default queue. */
async function look(path = '', options = {}) {
  open = await openPage(options);
  await open.page.goto(`${road.url}/${path}`);
  return open.page;
}

async function post(path: string, body: unknown): Promise<void> {
  const response = await fetch(`${road.url}/api/${path}`, { method: 'POST', body: JSON.stringify(body) });
  expect(response.status).toBe(200);
}

const beat = (instance_id: string, fields = {}) =>
  post('heartbeats', { instance_id, status: 'running', config_id: 'many', interval_seconds: 600, ...fields });

/** The numbers of the rows that are in the document. */
const rowNumbers = () =>
  open.page.$$eval('tbody tr[data-id]', (rows) =>
    rows.map((row) => Number(row.getAttribute('aria-rowindex'))),
  );

describe('the fleet on the page', () => {
  it('tells who has no worker what to type, and shows the first one without a reload', async () => {
    const page = await look();
    await page.getByRole('heading', { name: 'Add the first worker' }).waitFor();
    const address = new URL(road.url).host;
    expect(await page.locator('pre').allTextContents()).toEqual(
      expect.arrayContaining([expect.stringContaining(`CASOLA_WS_URL=ws://${address} `)]),
    );
    expect(await accessibilityFaults(page)).toEqual([]);

    await (await new RawWorker(road.url).connect()).register('first', { config_id: 'one' });
    await page.getByRole('link', { name: 'first' }).click();
    await page.getByRole('heading', { name: 'first' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/workers/first');
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(open.faults).toEqual([]);
  });

  it('shows why a worker fails, what to do about it, and its log as it comes', async () => {
    const error = { status: 'error', error_message: 'CUDA out of memory', advice: 'Take a larger GPU.' };
    await beat('broken', error);
    const line = { level: 'error', source: 'vllm', job_id: null, config_id: null };
    const log = (message: string) =>
      post('logs', { instance_id: 'broken', entries: [{ ...line, timestamp: Date.now() / 1000, message }] });
    await log('\u001b[31mfirst line\u001b[0m');

    const page = await look('', { colorScheme: 'dark' });
    const attention = page.getByRole('region', { name: 'Needs attention' });
    await attention.getByText('CUDA out of memory').waitFor();
    await attention
      .getByRole('button', { name: 'Acknowledge: broken failed: CUDA out of memory.' })
      .waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.getByRole('row').getByRole('link', { name: 'broken' }).click();
    await page.getByRole('region', { name: 'Error' }).getByText('Take a larger GPU.').waitFor();
    await page.locator('.log .message', { hasText: /^error first line$/ }).waitFor();
    await log('second line');
    await page.locator('.log .message', { hasText: 'second line' }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(open.faults).toEqual([]);
  });

  it('has only those of a thousand workers in the document that are in view', async () => {
    const ids = Array.from({ length: MANY }, (_, i) => `many-${String(i).padStart(4, '0')}`);
    while (ids.length > 0)
      await Promise.all(ids.splice(0, 50).map((id) => beat(id, { gpus: [{ name: 'NVIDIA L4' }] })));
    const page = await look('?config_id=many&sort=worker');
    const table = page.getByRole('table', { name: 'Workers', exact: true });
    await table.getByRole('link', { name: 'many-0000' }).waitFor();
    await expect.poll(() => table.getAttribute('aria-rowcount')).toBe(String(MANY + 1 + 1));
    expect((await rowNumbers()).length).toBeLessThan(IN_VIEW_AT_MOST);

    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    await table.getByRole('link', { name: 'many-0999' }).waitFor();
    expect((await rowNumbers()).length).toBeLessThan(IN_VIEW_AT_MOST);
    expect(Math.max(...(await rowNumbers()))).toBe(MANY + 2);

    const scrolled = await page.evaluate('scrollY');
    await table.getByRole('link', { name: 'many-0999' }).click();
    await page.getByRole('heading', { name: 'many-0999' }).waitFor();
    await page.keyboard.press('Escape');
    await table.getByRole('link', { name: 'many-0999' }).waitFor();
    expect(await page.evaluate('scrollY')).toBe(scrolled);
  });

  it('shows the rows that were in view when somebody goes back, also in a browser that is busy', async () => {
    const page = await look('?config_id=many&sort=worker');
    await page.addInitScript(SLOW_TIMERS);
    await page.reload();
    const table = page.getByRole('table', { name: 'Workers', exact: true });
    await table.getByRole('link', { name: 'many-0000' }).waitFor();
    await page.waitForTimeout(2 * SLOW_TIMER_MS);
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    await table.getByRole('link', { name: 'many-0999' }).click();
    await page.getByRole('heading', { name: 'many-0999' }).waitFor();
    await page.goBack();
    await table.getByRole('link', { name: 'many-0999' }).waitFor();
  });

  it('can be gone through by keys alone', async () => {
    const page = await look('?config_id=many&sort=worker');
    await page.getByRole('link', { name: 'many-0001' }).waitFor();
    await page.keyboard.press('j');
    await expect.poll(() => page.evaluate('document.activeElement?.textContent')).toBe('broken');
    await page.keyboard.press('j');
    await expect.poll(() => page.evaluate('document.activeElement?.textContent')).toBe('many-0000');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'many-0000' }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await page.getByRole('heading', { name: 'Spend' }).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await page.keyboard.press('/');
    await page.keyboard.type('many-0500');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'many-0500' }).waitFor();
  });

  it('says what a filter hides, and shows it again', async () => {
    const page = await look('?state=draining');
    await page.getByText(/No worker is draining; [\d,]+ workers hidden\./).waitFor();
    await page.getByRole('button', { name: 'Show all' }).click();
    await page.getByRole('table', { name: 'Workers', exact: true }).waitFor();
    expect(new URL(page.url()).search).toBe('');
  });

  it('finds a worker that is not in view by its words', async () => {
    const page = await look('');
    const table = page.getByRole('table', { name: 'Workers', exact: true });
    const words = page.getByRole('searchbox', { name: /^Filter by words/ });
    await words.fill('MANY-0777');
    await table.getByRole('link', { name: 'many-0777' }).waitFor();
    await expect.poll(() => table.getAttribute('aria-rowcount')).toBe('2');
    await page.reload();
    await table.getByRole('link', { name: 'many-0777' }).waitFor();
    await words.fill('no such words');
    await page.getByText(/No worker with “no such words”; [\d,]+ workers hidden\./).waitFor();
    await page.getByRole('button', { name: 'Show all' }).click();
    await expect.poll(() => words.inputValue()).toBe('');
    await table.waitFor();
  });

  it('shows all workers for a state that there is not', async () => {
    const page = await look('?state=constructor');
    await page.getByRole('table', { name: 'Workers', exact: true }).waitFor();
    expect(open.faults).toEqual([]);
  });

  it('shows exact times in UTC to whoever wants that, also the next time', async () => {
    const page = await look('workers/broken');
    const time = () => page.locator('.log time').first().textContent();
    await expect.poll(time).toMatch(/ (?:CET|CEST|GMT\+[12])$/);
    await page.keyboard.press('Shift+T');
    await expect.poll(time).toMatch(/ UTC$/);
    await page.reload();
    await expect.poll(time).toMatch(/ UTC$/);
  });

  it('leaves room for workers below what needs attention, and shows all of that on a click', async () => {
    for (let n = 0; n < 5; n += 1)
      await beat(`failing-${n}`, {
        status: 'error',
        error_message: `No GPU ${n}.`,
        advice: 'Look. '.repeat(90),
      });
    const page = await look('', { viewport: { width: 1440, height: 900 } });
    const problems = page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem');
    await expect.poll(() => problems.count()).toBe(3);
    const row = await page.locator('tbody tr[data-id]').first().boundingBox();
    expect(row!.y).toBeLessThan(450);
    await page.getByRole('button', { name: 'Show all' }).click();
    await expect.poll(() => problems.count()).toBe(6);
    await page.getByRole('button', { name: 'Show the worst' }).click();
    await expect.poll(() => problems.count()).toBe(3);
    await expect
      .poll(async () => (await page.locator('tbody tr[data-id]').first().boundingBox())!.y)
      .toBe(row!.y);
  });

  it('fits a phone without scrolling sideways', async () => {
    const page = await look('', { viewport: { width: 375, height: 700 } });
    await page.getByRole('table', { name: 'Workers', exact: true }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(375);
    expect(await accessibilityFaults(page)).toEqual([]);
  });
});
