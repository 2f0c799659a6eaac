import { defineConfig } from 'vitest/config';

/** `npm run test:journal`: journals in real servers. */
export default defineConfig({
  test: {
    include: ['test/journal/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts', 'test/journal/global-setup.ts'],
    maxWorkers: 2,
    testTimeout: 150_000,
    hookTimeout: 150_000,
  },
});
