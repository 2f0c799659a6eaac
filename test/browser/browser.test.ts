import { expect, it } from 'vitest';
import { accessibilityFaults } from '../support/browser.ts';
import { openPage } from './page.ts';

/** What the other files rely on. */

it('shows a page, in the same fonts on every machine', async () => {
  const { page, faults, close } = await openPage();
  await page.setContent('<html lang="en"><title>t</title><main><h1>Hello</h1></main></html>');
  expect(await page.getByRole('heading').textContent()).toBe('Hello');
  expect(faults).toEqual([]);
  expect(await accessibilityFaults(page)).toEqual([]);
  await close();
});

it('notices errors of scripts, and text that cannot be read', async () => {
  const { page, faults, close } = await openPage();
  await page.setContent(
    '<html lang="en"><title>t</title><p style="color:#eee;background:#fff">faint</p></html>',
  );
  await page.evaluate(() => setTimeout(() => console.error('broken')));
  await expect.poll(() => faults).toEqual(['console: broken']);
  expect(await accessibilityFaults(page)).toEqual([expect.stringMatching(/^color-contrast: /)]);
  await close();
});
