import { defineConfig } from 'vitest/config';

/** `npm run test:upgrade`: queues, workers, launchers and clients of this version and of the version before it, together. */
export default defineConfig({
  test: {
    include: ['test/upgrade/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts', 'test/upgrade/global-setup.ts'],
    maxWorkers: 2,
    testTimeout: 240_000,
    hookTimeout: 150_000,
  },
});
