import type { Browser, BrowserContextOptions } from 'playwright-core';
import { afterAll } from 'vitest';
import { launchBrowser } from '../../scripts/browser/setup.ts';
import { type OpenPage, openPage as openPageOf } from '../support/browser.ts';

let browser: Promise<Browser> | undefined;

afterAll(async () => await (await browser)?.close());

/** A page of this file's browser, which starts with the first page and ends with the file. */
export async function openPage(options: BrowserContextOptions = {}): Promise<OpenPage> {
  browser ??= launchBrowser();
  return await openPageOf(await browser, options);
}
