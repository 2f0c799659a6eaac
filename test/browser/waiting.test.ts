import { afterAll, beforeAll, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { startTestQueue } from '../support/test-queue.ts';
import { openPage } from './page.ts';

/** A batch on a pool that is scaled to zero, as the page shows it. No launcher is there. */
let open: OpenPage;
const road = startTestQueue();
beforeAll(async () => {
  const pools = { demo: { model: 'tiny', slots: 2, machines: [{ provider: 'here' }] } };
  const spec = { providers: { here: { driver: 'process' } }, pools };
  await fetch(`${road.url}/api/fleet/spec`, { method: 'POST', body: JSON.stringify({ spec }) });
  open = await openPage();
});
afterAll(() => open.close());

function file(lines: number) {
  const texts = Array.from({ length: lines }, (_, n) => {
    const body = { model: 'tiny', messages: [{ role: 'user', content: `${n}` }] };
    return JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  return { name: 'in.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(texts.join('\n')) };
}

it('says what the batch waits for and until when, and a button beside it launches a worker', async () => {
  const { page, faults } = open;
  await page.goto(`${road.url}/batches`);
  await page.getByLabel('File of requests').setInputFiles(file(3));
  await page.getByRole('button', { name: 'Start a batch' }).click();
  const waits = page.getByText(
    /^Waits because 3 lines of batches are too little work .* \(until .+\)\. "worker-/,
  );
  await waits.waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);

  await page.getByRole('link', { name: 'Queue', exact: true }).click();
  await waits.waitFor();
  await page.getByText('Serving', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Change demo' }).click();
  const dialog = page.getByRole('dialog', { name: 'Change demo' });
  await dialog.getByRole('button', { name: 'Launch one' }).click();
  await dialog.getByRole('button', { name: 'Launch one now' }).click();
  await dialog.getByText('demo is given at least 1 worker').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.getByText(/^Waits because it has no worker, and no launcher is connected/).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  expect(faults).toEqual([]);
});

it('gives the panel of a pool as much room when nothing waits as when jobs do', async () => {
  const { page } = open;
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.reload();
  const panel = page.getByRole('article', { name: 'demo' });
  const reason = panel.getByText(/^Waits because/);
  await reason.waitFor();
  const lines = (await reason.boundingBox())!.height / 20;
  expect(lines).toBeGreaterThan(2);
  const { height } = (await panel.boundingBox())!;
  const { data } = (await (await fetch(`${road.url}/v1/batches`)).json()) as { data: { id: string }[] };
  await fetch(`${road.url}/v1/batches/${data[0]!.id}/cancel`, { method: 'POST' });
  await panel.getByText('Nothing waits').waitFor();
  // The panel holds the room that its reason had, until the page is opened anew.
  await page.reload();
  await panel.getByText('Nothing waits').waitFor();
  expect((await panel.boundingBox())!.height).toBe(height);
  // What is done by hand does not depend on what waits.
  await panel.getByRole('button', { name: 'Change demo' }).waitFor();
});
