import type { Browser, BrowserContextOptions } from 'playwright-core';
import { afterAll, afterEach } from 'vitest';
import { launchBrowser } from '../../scripts/browser/setup.ts';
import { type OpenPage, openPage as openPageOf } from '../support/browser.ts';

let browser: Promise<Browser> | undefined;
const opened: OpenPage[] = [];

/** A failure says what the pages showed: a run elsewhere leaves nothing else to look at. */
afterEach(async ({ task }) => {
  const [error] = task.result?.errors ?? [];
  for (const { page, faults } of error ? opened : []) {
    if (page.isClosed()) continue;
    const text = String(await page.evaluate('document.body.innerText').catch(String)).slice(0, 1000);
    error!.message += `\n${page.url()} showed: ${text.replaceAll(/\s+/g, ' ')}`;
    error!.message += `\nFaults: ${faults.join('; ') || 'none'}`;
  }
});

afterAll(async () => await (await browser)?.close());

/** A page of this file's browser, which starts with the first page and ends with the file. */
export async function openPage(options: BrowserContextOptions = {}): Promise<OpenPage> {
  browser ??= launchBrowser();
  const open = await openPageOf(await browser, options);
  opened.push(open);
  return open;
}
