import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { accessibilityFaults, type OpenPage } from '../support/browser.ts';
import { type QueueProcess, readyWorker, startQueue, tearDown, type WorkerProcess } from '../support/road.ts';
import { openPage } from './page.ts';

/** A chat completion that is tried on the page, over the road as users start it. */
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
afterAll(tearDown);

async function paceEngine(inter_token_latency_ms: number): Promise<void> {
  const answer = await fetch(`${worker.engineUrl}/simulator/pace`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ inter_token_latency_ms }),
  });
  expect(answer.status).toBe(200);
}

it('streams a chat through the gateway, and shows the command that does the same', async () => {
  await page.goto(`${queue.url}/try`);
  await page.getByLabel('Message').fill('Say hello.');
  // Until the page knows a model, Enter sends nothing.
  await page.getByRole('button', { name: 'Send', disabled: false }).waitFor();
  await page.keyboard.press('Enter');
  const answer = page.getByRole('listitem').filter({ hasText: 'tiny' }).last();
  await expect.poll(async () => (await answer.textContent())?.length).toBeGreaterThan(10);
  // It comes in pieces: the form is still busy while there is text.
  await page.getByText('whole answer after').waitFor();
  await page.getByText(/tokens in, \d+ out/).waitFor();
  await page.getByText(`curl '${queue.url}/v1/chat/completions'`).waitFor();
  await page.getByText('"content": "Say hello."').waitFor();
  await page.getByRole('link', { name: 'where the time went' }).click();
  await page.getByText('This request was answered on its connection').waitFor();
  await page.getByText('Attempt 1').waitFor();
  expect(open.faults.filter((fault) => !fault.includes('404'))).toEqual([]);
});

it('stops a chat, and keeps what was said', async () => {
  // Its second token would come in an hour: the answer does not end before Stop is found.
  await paceEngine(3_600_000);
  await page.goto(`${queue.url}/try`);
  await page.getByLabel('Message').fill('Tell me a long story that does not end.');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Send' }).waitFor();
  await paceEngine(25);
});

it('asks with a system prompt and parameters, not streamed, and shows a command that gets the same answer', async () => {
  await page.goto(`${queue.url}/try`);
  await page.getByText('System prompt, parameters, tools').click();
  await page.getByLabel('System prompt').fill("It's a test.");
  await page.getByLabel('Max tokens').fill('a few');
  await page.getByLabel('Message').fill('Say hello.');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('Max tokens: "a few" is no number.').waitFor();
  await page.getByLabel('Max tokens').fill('12');
  await page.getByLabel('Seed').fill('7');
  await page.getByLabel('Tools, as JSON').fill('[{]');
  await page.getByText('Tools: No valid JSON: line 1, column 3').waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByLabel('Tools, as JSON').fill('');
  await page.getByRole('checkbox', { name: 'Stream' }).uncheck();
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('whole answer after').waitFor();
  const answer = await page.locator('.chat li.assistant .said').last().textContent();

  const command = await page.locator('.elsewhere pre').textContent();
  const { stdout } = await promisify(execFile)('bash', ['-c', command!], {
    env: { ...process.env, NO_PROXY: '*', no_proxy: '*' },
  });
  expect(JSON.parse(stdout)).toMatchObject({ choices: [{ message: { content: answer } }] });
  await page.getByRole('button', { name: 'Python' }).click();
  await page.getByText('from openai import OpenAI').waitFor();
  await page.getByRole('button', { name: 'JavaScript' }).click();
  await page.getByText("import OpenAI from 'openai';").waitFor();
  await page.getByText("It's a test.").first().waitFor();
  expect(open.faults.filter((fault) => !fault.includes('404'))).toEqual([]);
});

it('sends an image with a message, and shortens it in what is shown', async () => {
  await page.goto(`${queue.url}/try`);
  const buffer = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=',
    'base64',
  );
  await page
    .getByLabel('Image', { exact: true })
    .setInputFiles({ name: 'pixel.png', mimeType: 'image/png', buffer });
  await page.getByAltText('To be sent with the next message').waitFor();
  await page.getByLabel('Message').fill('What is this?');
  await page.getByText('The image is shortened here; Copy takes all of it.').waitFor();
  const [request] = await Promise.all([
    page.waitForRequest(/chat\/completions/),
    page.getByRole('button', { name: 'Send' }).click(),
  ]);
  expect(request.postDataJSON()).toMatchObject({
    messages: [
      {
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: `data:image/png;base64,${buffer.toString('base64')}` } },
        ],
      },
    ],
  });
  await page.getByAltText('To be sent with the next message').waitFor({ state: 'detached' });
});
