import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

const require = createRequire(import.meta.url);

export interface OpenPage {
  page: Page;
  /** The problems of the page so far: errors of scripts, refused requests, violations of the page's own policy. */
  faults: string[];
  close(): Promise<void>;
}

/**
 * A page of a browser profile of its own, with what would differ between machines fixed.
 * @param options such as the theme, the size, cookies and headers
 */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    reducedMotion: 'reduce',
    colorScheme: 'light',
    ...options,
  });
  const page = await context.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(`console: ${message.text()}`);
  });
  return { page, faults, close: () => context.close() };
}

/** Serious and critical faults that axe finds in the page as it is now, a line each; none is what is wanted. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
  await page.evaluate(axe);
  const { violations } = await page.evaluate(
    async () => await (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
  );
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.html}`));
}
