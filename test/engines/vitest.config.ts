import { defineConfig } from 'vitest/config';

/** `npm run test:engines`: the road over engines that are no vLLM and that somebody else starts. */
export default defineConfig({
  test: {
    include: ['test/engines/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts', 'test/engines/global-setup.ts'],
    maxWorkers: 2,
    testTimeout: 150_000,
    hookTimeout: 150_000,
  },
});
