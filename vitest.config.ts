import { defineConfig } from 'vitest/config';

/** `npm test`: everything that needs nothing but npm. Others' clients, real vLLM and the browser have configurations of their own. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/global-setup.ts'],
    exclude: ['test/browser/**', 'test/clients/**', 'test/prometheus/**', 'test/vllm/**'],
    // Half of their time tests wait for a time limit or a process, so three files keep two cores busy.
    maxWorkers: 3,
    // Longer than `until` waits for one state, so that a failure names what was waited for.
    testTimeout: 150_000,
    hookTimeout: 150_000,
  },
});
