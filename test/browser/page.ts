import type { Browser, BrowserContextOptions } from 'playwright-core';
import { afterAll, afterEach } from 'vitest';
import { launchBrowser } from '../../scripts/browser/setup.ts';
import { type OpenPage, openPage as openPageOf } from '../support/browser.ts';

/** The longest wait for what a page should show, ms: a busy machine may take many seconds over it. */
const SHOWN_MS = 60_000;

let browser: Promise<Browser> | undefined;
const opened: OpenPage[] = [];

/** A failure says what the pages showed: a run elsewhere leaves nothing else to look at. */
afterEach(async ({ task }) => {
  const [error] = task.result?.errors ?? [];
  for (const { page, faults } of error ? opened : []) {
    if (page.isClosed()) continue;
    const shown = String(await page.evaluate('document.querySelector("main")?.innerText').catch(String));
    error!.message += `\n${page.url()} showed: ${shown.replaceAll(/\s+/g, ' ').slice(0, 1000)}`;
    error!.message += `\nFaults: ${faults.join('; ') || 'none'}`;
  }
});

afterAll(async () => await (await browser)?.close());

/** A page of this file's browser, which starts with the first page and ends with the file. */
export async function openPage(options: BrowserContextOptions = {}): Promise<OpenPage> {
  browser ??= launchBrowser();
  const open = await openPageOf(await browser, options);
  open.page.context().setDefaultTimeout(SHOWN_MS);
  opened.push(open);
  return open;
}
