import { afterAll, beforeAll, expect, it } from 'vitest';
import { closeRawWorkers, type JobFrame, RawWorker } from '../support/raw-worker.ts';
import { chatJob, type QueueProcess, settled, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** What is done from the page to all jobs that match its filters. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
});
afterAll(async () => {
  closeRawWorkers();
  await tearDown();
});

it('says how many jobs match and which, then cancels these and no other', async () => {
  const jobs = ['many-1', 'many-2', 'many-3', 'other'].map((id) => ({
    ...chatJob(1, { id }),
    config_id: 'idle',
  }));
  await fetch(`${queue.url}/api/jobs`, { method: 'POST', body: JSON.stringify(jobs) });
  const { page, faults, close } = await openPage();
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
});

it('runs all failed jobs again that match, and sees them end', async () => {
  const worker = await (await new RawWorker(queue.url).connect()).register('mends', { config_id: 'mends' });
  const ids = ['again-1', 'again-2', 'left-alone'];
  const jobs = ids.map((id) => ({ ...chatJob(1, { id, max_attempts: 1 }), config_id: 'mends' }));
  await fetch(`${queue.url}/api/jobs`, { method: 'POST', body: JSON.stringify(jobs) });
  const end = (type: string, { job_id, fence_token }: JobFrame, how: object) =>
    worker.send({ type, job_id, fence_token, ...how });
  for (const index of ids.keys())
    end('job_error', await worker.job(index), { error: 'no memory left', code: 'engine_error' });
  for (const id of ids) await settled(queue.url, id);

  const { page, faults, close } = await openPage();
  await page.goto(`${queue.url}/jobs?id=again-`);
  await page.getByRole('row', { name: /Failed again-2/ }).waitFor();
  await page.getByRole('button', { name: 'Run again all that match' }).click();
  const dialog = page.getByRole('dialog', { name: 'Run again all that match' });
  await dialog.getByText('2 jobs failed or expired, and would run again under the same ids.').waitFor();
  await dialog.getByText('again-1, again-2').waitFor();
  await dialog.getByRole('button', { name: 'Run again 2 jobs now' }).click();
  await dialog.getByText('2 jobs run again.').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  for (const index of [3, 4]) end('job_result', await worker.job(index), { result: { choices: [] } });
  // Without a reload.
  for (const id of ['again-1', 'again-2'])
    await page.getByRole('row', { name: new RegExp(`Succeeded ${id}`) }).waitFor();
  await page.goto(`${queue.url}/jobs?id=left-`);
  await page.getByRole('row', { name: /Failed left-alone/ }).waitFor();
  expect(faults).toEqual([]);
  await close();
});
