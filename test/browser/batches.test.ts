import { afterAll, beforeAll, expect, it } from 'vitest';
import { accessibilityFaults } from '../support/browser.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown } from '../support/road.ts';
import { openPage } from './page.ts';

/** Batches on the page, from the upload of a file to the download of its answers. */
let queue: QueueProcess;

beforeAll(async () => {
  queue = await startQueue();
  await readyWorker(queue.url, 'w-1', {
    env: { CASOLA_MAX_JOBS: '4' },
    engineArgs: '--inter-token-latency-ms 20',
  });
});
afterAll(tearDown);

function file(lines: number, maxTokens: number) {
  const texts = Array.from({ length: lines }, (_, n) => {
    // The first is an error of the engine.
    const body = { messages: [{ role: 'user', content: `${n}` }], max_tokens: n === 0 ? -1 : maxTokens };
    return JSON.stringify({ custom_id: `line-${n}`, method: 'POST', url: '/v1/chat/completions', body });
  });
  return { name: 'in.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(texts.join('\n')) };
}

it('runs a file, shows how far it is and gives its answers, and cancels one', async () => {
  const { page, faults, close } = await openPage();
  await page.goto(`${queue.url}/batches`);
  await page.getByText('No batch has been created').waitFor();
  const start = async (lines: number, maxTokens: number) => {
    await page.getByLabel('File of requests').setInputFiles(file(lines, maxTokens));
    await page.getByRole('button', { name: 'Start a batch' }).click();
  };
  await start(12, 4);
  await page.getByText('Completed', { exact: true }).waitFor();
  await page.getByText('Errors: 1 × status 400').waitFor();
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Output', exact: true }).click();
  expect((await download).suggestedFilename()).toMatch(/^batch_\w+_output\.jsonl$/);

  await start(200, 2000);
  await page.getByText('Done in about').waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByRole('button', { name: /^Cancel/ }).click();
  await page
    .getByText(/^Cancell/)
    .first()
    .waitFor();
  expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
  expect(faults).toEqual([]);
  await close();
});
