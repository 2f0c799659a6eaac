import { defineConfig } from 'vitest/config';
import { longestFirst } from '../support/longest-first.ts';

/** `npm run test:browser`: the dashboard in a real Chromium, over the road as users start it. */
export default defineConfig({
  test: {
    include: ['test/browser/**/*.test.ts'],
    globalSetup: ['test/browser/global-setup.ts'],
    maxWorkers: 3,
    sequence: { sequencer: longestFirst('rollout', 'still', 'launches', 'every-view') },
    // A busy machine may take seconds over a page.
    expect: { poll: { timeout: 60_000 } },
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
