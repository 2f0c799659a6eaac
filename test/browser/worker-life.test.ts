import type { Page } from 'playwright-core';
import { afterAll, afterEach, expect, it } from 'vitest';
import type { OpenPage } from '../support/browser.ts';
import { killTree, stopAllProcesses } from '../support/processes.ts';
import { chatJob, startQueue, startWorker, submit, tearDown, untilReady } from '../support/road.ts';
import { openPage } from './page.ts';

/** What an operator sees of a worker's life, while it happens, over the road as users start it. */
let open: OpenPage | null = null;

afterEach(async () => {
  await open?.close();
  open = null;
  await stopAllProcesses();
});
afterAll(tearDown);

async function show(url: string): Promise<Page> {
  open = await openPage();
  await open.page.goto(url);
  return open.page;
}

const BEATS = { CASOLA_HEARTBEAT_INTERVAL: '1' };

it('shows a worker within a second of its first word', async () => {
  const queue = await startQueue();
  const page = await show(queue.url);
  await page.getByText('Waiting for a worker').waitFor();
  const heard = fetch(`${queue.url}/api/heartbeats`, {
    method: 'POST',
    body: JSON.stringify({ instance_id: 'vast-1', status: 'starting', config_id: 'cfg' }),
  });
  expect((await heard).status).toBe(200);
  // A second for the frame; the rest is for a busy machine.
  await page.getByRole('link', { name: 'vast-1' }).waitFor({ timeout: 10_000 });
  expect(open?.faults).toEqual([]);
});

it('shows a worker load with progress, take jobs, be killed, count as lost, and return', async () => {
  const queue = await startQueue();
  const page = await show(queue.url);
  const row = page.getByRole('row', { name: /w-1/ });
  const worker = await startWorker(queue.url, 'w-1', {
    engineArgs: '--startup-seconds 12 --inter-token-latency-ms 20',
    env: BEATS,
  });
  await row.getByText('Loading', { exact: true }).waitFor();
  await row.getByRole('progressbar').waitFor();
  await untilReady(queue.url, 'w-1');
  await row.getByText('Idle', { exact: true }).waitFor();
  await page.getByText('Serving', { exact: true }).waitFor();

  await submit(queue.url, chatJob(20_000, { id: 'long' }));
  await row.getByText('Running', { exact: true }).waitFor();
  await row.getByText('1/8').waitFor();

  // The machine is gone: nobody is left who could say that it stops.
  killTree(worker.process.pid);
  await row.getByText('Lost', { exact: true }).waitFor();
  await page.getByRole('region', { name: 'Needs attention' }).getByText(/w-1/).first().waitFor();

  await startWorker(queue.url, 'w-1', { engineArgs: '--inter-token-latency-ms 20', env: BEATS });
  await row.getByText(/Idle|Running/).waitFor();
  expect(open?.faults).toEqual([]);
}, 240_000);

it('survives a restart of the queue without being loaded anew, and says so meanwhile', async () => {
  const queue = await startQueue();
  const page = await show(queue.url);
  await fetch(`${queue.url}/api/heartbeats`, {
    method: 'POST',
    body: JSON.stringify({ instance_id: 'kept', status: 'starting', config_id: 'cfg' }),
  });
  // The charts never load, so that they too have a failure to tell: the page says it once all the same.
  await page.route('**/api/fleet/history*', (route) => route.abort());
  await page.reload();
  await page.getByRole('link', { name: 'kept' }).waitFor();
  await page.evaluate(() => Object.assign(globalThis, { sameDocument: true }));
  await queue.process.stop();
  await page.getByText(/The queue does not answer/).waitFor();
  await page.getByRole('link', { name: 'kept' }).waitFor();
  await startQueue({ port: queue.port, stateDir: queue.stateDir });
  await page.getByText(/The queue does not answer/).waitFor({ state: 'detached' });
  await page.getByText('Live', { exact: false }).first().waitFor();
  expect(await page.evaluate(() => 'sameDocument' in globalThis)).toBe(true);
});
