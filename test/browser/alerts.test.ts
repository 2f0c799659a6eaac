import { afterAll, beforeAll, expect, it } from 'vitest';
import { accessibilityFaults } from '../support/browser.ts';
import { startReceiver } from '../support/receiver.ts';
import { type QueueProcess, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** What needs attention, and who sees to it. */
let queue: QueueProcess;
const receiver = await startReceiver();

beforeAll(async () => {
  queue = await startQueue({
    env: {
      QUEUE_TOKENS: 'admin:operators-token,read:readers-token,worker:workers-token',
      QUEUE_ALERTS: JSON.stringify([{ name: 'team', kind: 'slack', url: receiver.url }]),
    },
  });
});
afterAll(async () => {
  await tearDown();
  await receiver.stop();
});

async function signIn(token: string, options = {}) {
  const open = await openPage(options);
  await open.page.goto(queue.url);
  await open.page.getByLabel('Token').fill(token);
  await open.page.getByRole('button', { name: 'Sign in' }).click();
  // On a phone the button that signs out is in the menu.
  await open.page.getByRole('heading', { name: 'Sign in' }).waitFor({ state: 'detached' });
  return open;
}

async function beat(worker: string, more: object): Promise<void> {
  await fetch(`${queue.url}/api/heartbeats`, {
    method: 'POST',
    headers: { authorization: 'Bearer workers-token' },
    body: JSON.stringify({ instance_id: worker, interval_seconds: 600, ...more }),
  });
}

it('lets an admin acknowledge a problem, which others see and cannot', async () => {
  await beat('broken', { status: 'fatal', error_message: 'no GPU', config_id: 'llama' });
  const reader = await signIn('readers-token', { viewport: { width: 320, height: 640 } });
  const problem = (page: typeof reader.page) =>
    page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem').filter({ hasText: 'no GPU' });
  await problem(reader.page).waitFor();
  expect(await reader.page.getByRole('button', { name: 'Acknowledge' }).count()).toBe(0);

  const operator = await signIn('operators-token', { colorScheme: 'dark' });
  const button = problem(operator.page).getByRole('button', { name: 'Acknowledge' });
  await button.waitFor();
  const before = await problem(operator.page).boundingBox();
  expect(await accessibilityFaults(operator.page)).toEqual([]);
  await button.focus();
  await operator.page.keyboard.press('Enter');
  for (const { page } of [operator, reader]) {
    await problem(page)
      .getByText(/^acknowledged .* by QUEUE_TOKENS 1$/)
      .waitFor();
    expect(await accessibilityFaults(page)).toEqual([]);
  }
  // What stands below it has not moved.
  expect((await problem(operator.page).boundingBox())?.height).toBe(before?.height);
  const width = 'document.documentElement.scrollWidth - innerWidth';
  expect(await reader.page.evaluate(width)).toBeLessThanOrEqual(0);
  await operator.close();
  await reader.close();
});

it('lets an admin have a worker forgotten that is gone', async () => {
  await beat('typo', { status: 'fatal', error_message: 'nothing answers at ENGINE_URL', config_id: 'llama' });
  const { page, close } = await signIn('operators-token');
  await page.goto(`${queue.url}/workers/typo`);
  const button = page.getByRole('button', { name: 'Forget this worker' });
  await button.waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await button.click();
  await page.getByRole('heading', { name: 'typo' }).waitFor({ state: 'detached' });
  const view = async () =>
    (await fetch(`${queue.url}/api/workers`, { headers: { authorization: 'Bearer readers-token' } })).json();
  expect(JSON.stringify(await view())).not.toContain('typo');
  await close();
});

it('lets an admin test a receiver and mute alerts, and tells in the list what is muted', async () => {
  await beat('hot', { status: 'fatal', error_message: 'no fan', config_id: 'llama' });
  const { page, close } = await signIn('operators-token');
  await page.getByRole('link', { name: 'Who is told' }).click();
  await page.getByRole('button', { name: 'Send a test to team' }).click();
  await page.getByText('team took the test post: it answered 200.').waitFor();
  expect(receiver.posts.at(-1)?.body.text).toContain('This is a test');
  await page.getByRole('button', { name: 'Mute alerts' }).click();
  expect(await page.locator('select[name=for]').inputValue()).toBe('1h');
  await page.getByLabel('Pool').fill('lla*');
  await page.getByLabel('Why').fill('new fans');
  await page.getByRole('button', { name: 'Mute', exact: true }).click();
  const mute = page.getByRole('listitem').filter({ hasText: 'the pool lla*' });
  await mute.getByText('new fans').waitFor();
  await page.locator('button:focus', { hasText: 'Mute alerts' }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.goto(queue.url);
  const problem = page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem');
  await problem.filter({ hasText: 'no fan' }).getByText('muted for').click();
  await page.getByRole('button', { name: 'End the mute of the pool lla*' }).click();
  await mute.waitFor({ state: 'detached' });
  await close();
});
