import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { accessibilityFaults } from '../support/browser.ts';
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

/** What holds for all views alike. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w-1', { env: { CASOLA_HEARTBEAT_INTERVAL: '1' } });
  for (const id of ['done-1', 'done-2']) await submit(queue.url, chatJob(20, { id }));
  await settled(queue.url, 'done-2');
  await submit(queue.url, { ...chatJob(1, { id: 'waits' }), config_id: 'nobody' });
});
afterAll(tearDown);

const VIEWS = [
  '',
  'workers/w-1',
  'queue',
  'requests',
  'responses',
  'jobs',
  'jobs/done-1',
  'jobs/waits',
  'batches',
  'spend',
  'tokens',
  'audit',
  'alerts',
  'usage',
  'try',
];

describe.each(['light', 'dark'] as const)('in the %s theme', (colorScheme) => {
  it.each(VIEWS)('/%s has no serious fault of accessibility, and none of its own', async (path) => {
    const { page, faults, close } = await openPage({ colorScheme });
    await page.goto(`${queue.url}/${path}`);
    await page.getByText('Live', { exact: false }).first().waitFor();
    await page.locator('main h1, main .notice').first().waitFor();
    for (const summary of await page.locator('main details > summary').all()) await summary.click();
    expect(await accessibilityFaults(page)).toEqual([]);
    expect(faults).toEqual([]);
    await close();
  });
});

it.each(VIEWS)('/%s does not scroll sideways on the narrowest phone', async (path) => {
  const { page, close } = await openPage({ viewport: { width: 320, height: 640 } });
  await page.goto(`${queue.url}/${path}`);
  await page.getByText('Live', { exact: false }).first().waitFor();
  await page.locator('main h1, main .notice').first().waitFor();
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
  await close();
});

it('asks no other host for anything, and only what it is allowed', async () => {
  const { page, close } = await openPage();
  const hosts = new Set<string>();
  page.on('request', (request) => hosts.add(new URL(request.url()).host));
  const response = await page.goto(queue.url);
  await page.getByText('Live', { exact: false }).first().waitFor();
  expect([...hosts].filter((host) => host !== '')).toEqual([new URL(queue.url).host]);
  const policy = response!.headers()['content-security-policy'];
  for (const rule of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "frame-ancestors 'none'",
  ]) {
    expect(policy).toContain(rule);
  }
  await close();
});
