import { readFile } from 'node:fs/promises';
import { afterAll, afterEach, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { closeRawWorkers, RawWorker } from '../support/raw-worker.ts';
import { startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** What teams that share a queue used, and who of them waits, as the page shows it; no fleet's file is there. */
let open: OpenPage | null = null;

afterEach(async () => {
  closeRawWorkers();
  await open?.close();
  open = null;
});
afterAll(tearDown);

it('tells what each team used, who waits for whom, and whose limit is near its end', async () => {
  const { url } = await startQueue({ env: { QUEUE_TOKENS: 'admin:root' } });
  const call = async (token: string, path: string, body: object, method = 'POST') => {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
    return (await response.json()) as Record<string, unknown>;
  };
  const make = async (name: string, more: object = {}) =>
    String((await call('root', '/api/tokens', { name, scopes: ['submit'], ...more })).token);
  const [a, b] = [await make('team-a'), await make('team-b', { limits: { running: 1 } })];
  await make('team-a-ci', { tenant: 'team-a' });
  const limits = { tenant: { tokens_per_day: 400 } };
  await call('root', '/api/tokens/team-a-ci', { limits }, 'PATCH');
  const worker = await (await new RawWorker(url, 'root').connect()).register('w');
  const submit = (token: string) =>
    call(token, '/api/jobs', { job_type: 'chat_completion', config_id: 'cfg', payload: { messages: [] } });
  for (let n = 0; n < 4; n++) await submit(a);
  const first = await worker.job();
  await submit(b);
  const usage = { prompt_tokens: 100, completion_tokens: 300 };
  const { job_id, fence_token } = first;
  worker.send({ type: 'job_result', job_id, fence_token, result: { text: 'x' }, usage });
  await worker.job(1);

  open = await openPage();
  const { page } = open;
  await page.goto(url);
  await page.getByLabel('Token').fill('root');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'Usage' }).click();
  // One runs by now: that of the team that had less.
  await page.getByText('team-a waits with 3 jobs.').waitFor();
  await page.getByText('1 of 1 requests at a time').waitFor();
  await page.getByText('team-a, all tokens, for team-a-ci: 400 of 400 tokens a day').waitFor();
  const rows = page.locator('tbody tr[data-id]');
  // The page reads what is used and who waits apart.
  await rows.first().waitFor();
  expect(await rows.allTextContents()).toEqual([expect.stringMatching(/^team-a.*1.*100.*300.*unknown$/)]);
  // What money needs.
  await page
    .getByText("a fleet's file launches with a price, and for workers with WORKER_PRICE_PER_HOUR")
    .waitFor();
  // A month as a file, of the one who is signed in.
  const started = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download CSV' }).click();
  const file = await readFile(await (await started).path(), 'utf8');
  expect(file).toMatch(/^kind,day,[^\n]*\r\nusage,[^\n]*,team-a,team-a,/);
  await page.getByRole('button', { name: 'model', exact: true }).click();
  await page.getByRole('columnheader', { name: 'Model' }).waitFor();
  await page.getByRole('button', { name: 'day', exact: true }).click();
  await page.locator(`tr[data-id="${new Date().toISOString().slice(0, 10)}"]`).waitFor();
  expect(new URL(page.url()).search).toBe('?by=day');
  expect(await accessibilityFaults(page)).toEqual([]);
  // The text below a figure breaks where the window is narrow.
  await page.setViewportSize({ width: 320, height: 640 });
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
});
