import { defineConfig } from 'vitest/config';

/** `npm test`: everything that needs nothing but npm. Others' clients, real vLLM and the browser have configurations of their own. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/browser/**', 'test/clients/**', 'test/prometheus/**', 'test/vllm/**'],
    // Road tests start several processes each: more files at once than this only slow each other down.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
