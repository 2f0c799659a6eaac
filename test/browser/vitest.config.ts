import { defineConfig } from 'vitest/config';

/** `npm run test:browser`: the dashboard in a real Chromium, over the road as users start it. */
export default defineConfig({
  test: {
    include: ['test/browser/**/*.test.ts'],
    globalSetup: ['test/browser/global-setup.ts'],
    maxWorkers: 3,
    // A busy machine may take seconds over a page.
    expect: { poll: { timeout: 60_000 } },
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
