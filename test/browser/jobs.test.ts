import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { closeRawWorkers, type RawWorker, RawWorker as Worker } from '../support/raw-worker.ts';
import {
  chatJob,
  type QueueProcess,
  readyWorker,
  setPace,
  startQueue,
  submit,
  tearDown,
  type WorkerProcess,
} from '../support/road.ts';
import { openPage } from './page.ts';

/** Jobs on the page, from their submission to their end, over the road as users start it. */
let queue: QueueProcess;
let worker: WorkerProcess;
let open: OpenPage;
let page: Page;

beforeAll(async () => {
  queue = await startQueue();
  worker = await readyWorker(queue.url, 'w-1', {
    engineArgs: '--inter-token-latency-ms 25 --time-to-first-token-ms 100',
  });
});
beforeEach(async () => {
  await open?.close();
  open = await openPage();
  page = open.page;
});
afterAll(async () => {
  closeRawWorkers();
  await tearDown();
});

it('follows a job from its submission to its result', async () => {
  await page.goto(`${queue.url}/jobs`);
  await page.getByText('No job is stored').waitFor();
  // It does not end before it was seen to run.
  await setPace(worker.engineUrl, 2000);
  await submit(queue.url, chatJob(200, { id: 'followed-1' }));
  const row = page.getByRole('row', { name: /followed-1/ });
  await row.getByText('Running', { exact: true }).waitFor();
  await row.getByRole('link', { name: 'followed-1' }).click();

  await page.getByRole('heading', { name: /followed-1/ }).waitFor();
  await page.getByText('goes on').waitFor();
  await setPace(worker.engineUrl, 25);
  await page.getByText('Succeeded', { exact: true }).waitFor();
  await page.getByText('Attempt 1').waitFor();
  await page.getByText('1 of 3', { exact: true }).waitFor();
  await page
    .getByText(/ran \d|to its first token \d/)
    .first()
    .waitFor();

  await page.getByText('Payload', { exact: true }).click();
  expect(await page.getByRole('textbox', { name: 'Payload' }).inputValue()).toContain('Tell me something.');
  await page.getByText('Result', { exact: true }).click();
  await expect.poll(() => page.getByRole('textbox', { name: 'Result' }).inputValue()).toContain('"choices"');
  await page.getByText(`curl '${queue.url}/api/jobs/followed-1?wait=60'`).waitFor();

  await page.getByRole('button', { name: 'Run again', exact: true }).click();
  await page.waitForURL((url) => !url.pathname.endsWith('followed-1'));
  await page.getByText('Succeeded', { exact: true }).waitFor();
  expect(open.faults).toEqual([]);
});

it('edits the payload of a job, says what is wrong with it, and runs it as another job', async () => {
  await submit(queue.url, chatJob(3, { id: 'edited-1', priority: 7 }));
  await page.goto(`${queue.url}/jobs/edited-1`);
  await page.getByRole('button', { name: 'Edit and run again' }).click();
  const editor = page.getByRole('textbox', { name: 'Payload to run, as JSON' });
  await editor.waitFor();
  const payload = await editor.inputValue();
  expect(JSON.parse(payload)).toMatchObject({ max_tokens: 3 });

  await editor.fill(payload.replace('"max_tokens": 3', '"max_tokens": three'));
  await page.getByText('should have a value, but "t" stands there').waitFor();
  const run = page.getByRole('button', { name: 'Run as a new job' });
  await run.click();
  // The cursor is where the fault is.
  const cursor = (area: unknown) => (area as { selectionStart: number }).selectionStart;
  expect((await editor.inputValue()).slice(await editor.evaluate(cursor))).toMatch(/^three/);
  await editor.fill('[]');
  await page.getByText('A payload is a JSON object').waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);

  await editor.fill(payload.replace('Tell me something.', 'Tell me something else.'));
  await run.click();
  await page.waitForURL((url) => url.pathname.includes('/jobs/') && !url.pathname.endsWith('edited-1'));
  await page.getByText('Succeeded', { exact: true }).waitFor();
  await page.getByText('Payload', { exact: true }).click();
  expect(await page.getByRole('textbox', { name: 'Payload' }).inputValue()).toContain('something else.');
  await page.getByText('Priority', { exact: true }).waitFor();
  expect(open.faults).toEqual([]);
});

it('edits a payload of which only the beginning is shown, but none that is too large for an editor', async () => {
  const withText = (id: string, length: number) => ({
    ...chatJob(1, { id, config_id: 'nobody' }),
    payload: { messages: [{ role: 'user', content: 'x'.repeat(length) }], last: 'seen' },
  });
  await submit(queue.url, withText('edited-2', 200_000));
  await submit(queue.url, withText('edited-3', 2_000_000));
  await page.goto(`${queue.url}/jobs/edited-2`);
  await page.getByRole('button', { name: 'Edit and run again' }).click();
  const editor = page.getByRole('textbox', { name: 'Payload to run, as JSON' });
  expect(await editor.inputValue()).toContain('"last": "seen"');
  await page.getByRole('button', { name: 'Close the editor' }).click();
  await editor.waitFor({ state: 'detached' });
  // The keyboard goes on where it opened the editor.
  await page.locator('button:focus', { hasText: 'Edit and run again' }).waitFor();

  await page.goto(`${queue.url}/jobs/edited-3`);
  await page.getByRole('button', { name: 'Edit and run again' }).click();
  await page.getByText('The payload is larger than 1.0 MB, too large to edit here.').waitFor();
  expect(await page.getByRole('button', { name: 'Run as a new job' }).count()).toBe(0);
});

it('cancels a job that runs', async () => {
  await submit(queue.url, chatJob(20_000, { id: 'cancelled-1' }));
  await page.goto(`${queue.url}/jobs/cancelled-1`);
  await page.getByRole('button', { name: 'Cancel the job' }).click();
  await page.getByText('Cancelled', { exact: true }).first().waitFor();
});

it('shows why a job failed three times, a lane for each attempt, and tries it again', async () => {
  const worker: RawWorker = await (await new Worker(queue.url).connect()).register('broken', {
    config_id: 'bad',
  });
  await submit(queue.url, { ...chatJob(1, { id: 'failed-1' }), config_id: 'bad' });
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const { job_id, fence_token } = await worker.job(attempt);
    const error = { error: `it broke, time ${attempt + 1}`, code: 'engine_error', retryable: true };
    worker.send({ type: 'job_error', job_id, fence_token, ...error });
  }
  await page.goto(`${queue.url}/jobs?state=failed`);
  const row = page.getByRole('row', { name: /failed-1/ });
  await row.getByText('3 of 3').waitFor();
  await row.getByRole('link', { name: 'failed-1' }).click();
  for (const attempt of [1, 2, 3])
    await page.getByText(`Attempt ${attempt}`, { exact: false }).first().waitFor();
  await page.getByText('same worker twice').waitFor();
  await page.getByText('it broke, time 1').first().waitFor();
  await page.getByRole('link', { name: 'Other jobs that ended this way today' }).click();
  await page.getByRole('row', { name: /failed-1/ }).waitFor();
  await page.goto(`${queue.url}/jobs/failed-1`);
  await page.getByRole('button', { name: 'Run again', exact: true }).click();
  await page.getByRole('button', { name: 'Cancel the job' }).waitFor();
});

it('finds jobs by the beginning of their id, and says which filter leaves none', async () => {
  for (const id of ['find-a', 'find-b', 'other']) await submit(queue.url, chatJob(1, { id }));
  await page.goto(`${queue.url}/`);
  await page
    .getByRole('searchbox', { name: /Search/ })
    .or(page.getByRole('combobox', { name: /Search/ }))
    .fill('find-');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'look among the jobs' }).click();
  await page.getByRole('row', { name: /find-a/ }).waitFor();
  await page.getByRole('row', { name: /find-b/ }).waitFor();
  expect(await page.getByRole('row', { name: /other/ }).count()).toBe(0);
  await page.getByRole('combobox', { name: 'State' }).selectOption('expired');
  await page.getByText('No job fits these filters: id begins with find-, state expired.').waitFor();
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.getByRole('row', { name: /other/ }).waitFor();
});

/** Stored jobs that no worker takes. @returns their ids */
async function submitIdle(name: string, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, n) => `${name}-${n}`);
  const jobs = ids.map((id) => ({ ...chatJob(1, { id }), config_id: name }));
  await fetch(`${queue.url}/api/jobs`, { method: 'POST', body: JSON.stringify(jobs) });
  return ids;
}

it('lists every job, however many come between two looks, in the state that it is in', async () => {
  await submitIdle('gap', 5);
  await page.goto(`${queue.url}/jobs?config_id=gap`);
  await page.getByText('These are all 5 jobs.').waitFor();
  await fetch(`${queue.url}/api/jobs/gap-0`, { method: 'DELETE' });
  const jobs = Array.from({ length: 250 }, (_, n) => ({
    ...chatJob(1, { id: `more-${n}` }),
    config_id: 'gap',
  }));
  await fetch(`${queue.url}/api/jobs`, { method: 'POST', body: JSON.stringify(jobs) });
  await page.getByRole('button', { name: 'Show older ones (100 shown)' }).click();
  await page.getByText('These are all 255 jobs.').waitFor();
  for (const { id } of jobs as { id?: string }[])
    await fetch(`${queue.url}/api/jobs/${id}`, { method: 'DELETE' });
  await page.evaluate('scrollTo(0, document.body.scrollHeight)');
  await page.getByRole('row', { name: /^Cancelled more-0 / }).waitFor();
});

it('takes out of the list what no longer fits its filter', async () => {
  const ids = await submitIdle('leaves', 3);
  await page.goto(`${queue.url}/jobs?config_id=leaves&state=pending`);
  await page.getByText('These are all 3 jobs.').waitFor();
  for (const id of ids) await fetch(`${queue.url}/api/jobs/${id}`, { method: 'DELETE' });
  await page.getByText('No job fits').waitFor();
});
