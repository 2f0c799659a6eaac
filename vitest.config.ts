import { defineConfig } from 'vitest/config';

/** `npm test`: everything that needs nothing but npm. Others' clients, real vLLM and the browser have configurations of their own. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/browser/**', 'test/clients/**', 'test/prometheus/**', 'test/vllm/**'],
    // More than half of their time tests wait for a time limit or a process, so four files keep two cores busy.
    maxWorkers: 4,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
