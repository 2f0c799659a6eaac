import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launchBrowser } from '../../scripts/browser/setup.ts';
import { accessibilityFaults, openPage } from '../support/browser.ts';

/** What the other files rely on. */
let browser: Browser;

beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

it('shows a page, in the same fonts on every machine', async () => {
  const { page, faults, close } = await openPage(browser);
  await page.setContent('<html lang="en"><title>t</title><main><h1>Hello</h1></main></html>');
  expect(await page.getByRole('heading').textContent()).toBe('Hello');
  expect(faults).toEqual([]);
  expect(await accessibilityFaults(page)).toEqual([]);
  await close();
});

it('notices errors of scripts, and text that cannot be read', async () => {
  const { page, faults, close } = await openPage(browser);
  await page.setContent(
    '<html lang="en"><title>t</title><p style="color:#eee;background:#fff">faint</p></html>',
  );
  await page.evaluate(() => setTimeout(() => console.error('broken')));
  await expect.poll(() => faults).toEqual(['console: broken']);
  expect(await accessibilityFaults(page)).toEqual([expect.stringMatching(/^color-contrast: /)]);
  await close();
});
