import { afterEach, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { openPage } from './page.ts';

/** Addresses: wrong ones, and those that show somebody else the same. And the look that a browser keeps. */
let open: OpenPage;

const road = startTestQueue();
afterEach(() => open.close());

async function look(path: string, options = {}) {
  open = await openPage(options);
  await open.page.goto(`${road.url}/${path}`);
  return open.page;
}

it.each(['nothing/at/all', 'queue/more', 'workers'])('leads on from /%s, where nothing is', async (path) => {
  const page = await look(path);
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
  expect(await page.title()).toContain('worker-vllm');
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByRole('link', { name: 'The fleet', exact: true }).click();
  await page.getByRole('heading', { name: 'Add the first worker' }).waitFor();
});

it('makes the time of a list part of its address', async () => {
  const page = await look('requests?range=1h');
  await page.getByRole('button', { name: 'Hold this time' }).click();
  const address = () => new URL(page.url()).searchParams;
  await expect.poll(() => address().get('range')).toBeNull();
  const [since, until] = [Date.parse(address().get('since')!), Date.parse(address().get('until')!)];
  expect(until - since).toBe(3_600_000);
  await page.reload();
  await page.getByRole('button', { name: /^from .* until / }).click();
  expect(address().get('since')).toBeNull();
});

it('makes the time of charts part of their address', async () => {
  const page = await look('queue?over=6h');
  const asked = page.waitForRequest((request) => request.url().includes('until='));
  await page.getByRole('button', { name: 'Hold this time' }).click();
  const { searchParams } = new URL((await asked).url());
  expect(searchParams.get('range')).toBe('6h');
  expect(searchParams.get('until')).toBe(new URL(page.url()).searchParams.get('until'));
  const href = await page.getByRole('link', { name: 'Requests of this time' }).getAttribute('href');
  expect(new URL(href!, page.url()).searchParams.get('until')).not.toBeNull();
  await page.getByRole('button', { name: /^until / }).click();
  await page.getByRole('button', { name: 'Hold this time' }).waitFor();
});

it('is light or dark as the user wants it, also the next time', async () => {
  const page = await look('queue', { colorScheme: 'light' });
  const ground = () => page.evaluate('getComputedStyle(document.documentElement).backgroundColor');
  const light = await ground();
  await page.getByRole('button', { name: 'Theme: system. Switch to light' }).click();
  expect(await ground()).toBe(light);
  await page.getByRole('button', { name: 'Theme: light. Switch to dark' }).click();
  await expect.poll(ground).not.toBe(light);
  await page.reload();
  await expect.poll(ground).not.toBe(light);
  await page.getByRole('button', { name: 'Theme: dark. Switch to system' }).click();
  await expect.poll(ground).toBe(light);
});
