import { afterAll, beforeAll, expect, it } from 'vitest';
import { accessibilityFaults } from '../support/browser.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** Stored responses on the page: the list, and one with its chain and its conversation. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w-1');
});
afterAll(tearDown);

async function post(path: string, body: object): Promise<{ id: string }> {
  const answer = await fetch(queue.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as { id: string };
}

const make = (more: object = {}) =>
  post('/v1/responses', { model: 'tiny', input: 'a secret', max_output_tokens: 4, ...more });

it('lists them, and shows one with what it goes on from', async () => {
  const { page, faults, close } = await openPage();
  await page.goto(`${queue.url}/requests`);
  await page.getByRole('link', { name: 'a list of their own' }).click();
  await page.getByText('No response is stored').waitFor();

  const first = await make();
  const second = await make({ previous_response_id: first.id });
  const conversation = await post('/v1/conversations', {});
  const talked = await make({ conversation: conversation.id, background: true });
  await page.reload();
  const rows = page.getByRole('table', { name: 'Stored responses' }).getByRole('row');
  await rows.nth(3).waitFor();
  expect(await rows.count()).toBe(4);

  await page.locator(`a[title="${second.id}"]`).click();
  await page.getByRole('heading', { name: 'Goes on from' }).waitFor();
  const chain = page.getByRole('table', { name: 'The responses before it' });
  await chain.locator(`a[title="${first.id}"]`).waitFor();
  expect(await page.getByText('Kept until').count()).toBeGreaterThan(0);
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(await page.textContent('main')).not.toContain('a secret');

  await page.goto(`${queue.url}/responses?conversation=${conversation.id}`);
  await page.locator(`a[title="${talked.id}"]`).click();
  await page.getByRole('link', { name: 'in the background, as a job' }).waitFor();
  await page.getByText('Items of the conversation').waitFor();
  expect(faults).toEqual([]);
  await close();
});

it('says that one is not there', async () => {
  const { page, close } = await openPage();
  await page.goto(`${queue.url}/responses/resp_none`);
  await page.getByText("Response with id 'resp_none' not found.").waitFor();
  expect(await page.getByText('from a shell').count()).toBe(0);
  await close();
});

it('shows the ages of a list whole on a phone', async () => {
  await make();
  const { page, close } = await openPage({ viewport: { width: 390, height: 844 } });
  // The widest age that there is.
  await page.route('**/api/responses?*', async (route) => {
    const answer = await route.fetch();
    const { responses, next } = await answer.json();
    const created_at = Date.now() - 587_000;
    const older = (responses as object[]).map((row) => ({ ...row, created_at }));
    await route.fulfill({ response: answer, json: { responses: older, next } });
  });
  await page.goto(`${queue.url}/responses`);
  const age = page.getByRole('table', { name: 'Stored responses' }).getByRole('time').first();
  await age.waitFor();
  expect(await age.textContent()).toMatch(/^9 min \d\d s$/);
  const cell = page.getByRole('cell').filter({ has: page.getByRole('time') });
  expect(await cell.first().evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
  await close();
});
