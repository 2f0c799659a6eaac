import { defineConfig } from 'vitest/config';

/** `npm run test:clients`: clients that others wrote, unmodified, against the road with the simulator. */
export default defineConfig({
  test: {
    include: ['test/clients/**/*.test.ts'],
    globalSetup: ['test/clients/global-setup.ts'],
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
