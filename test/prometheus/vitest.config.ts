import { defineConfig } from 'vitest/config';

/** `npm run test:prometheus`: what Prometheus' own tool says of our metrics and alerts. */
export default defineConfig({
  test: {
    include: ['test/prometheus/**/*.test.ts'],
    globalSetup: ['test/prometheus/global-setup.ts'],
    maxWorkers: 1,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
