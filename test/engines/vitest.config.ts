import { defineConfig } from 'vitest/config';

/** `npm run test:engines`: the road over engines that are no vLLM, started by somebody else, by a worker and by a launcher. */
export default defineConfig({
  test: {
    include: ['test/engines/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts', 'test/engines/global-setup.ts'],
    maxWorkers: 2,
    testTimeout: 150_000,
    hookTimeout: 150_000,
  },
});
