import { defineConfig } from 'vitest/config';

/** `npm test`: everything that needs nothing but npm. Real vLLM has a configuration of its own. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/vllm/**'],
    // Road tests start several processes each: more files at once than this only slow each other down.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
