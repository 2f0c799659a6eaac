import { defineConfig } from 'vitest/config';

/** `npm run test:vllm`: the road over real vLLM. A start is mostly one thread at work, so two go side by side. */
export default defineConfig({
  test: {
    include: ['test/vllm/**/*.test.ts'],
    globalSetup: ['test/vllm/global-setup.ts'],
    maxWorkers: 2,
    testTimeout: 180_000,
    // A server starts in 20 s, on a busy machine in minutes.
    hookTimeout: 600_000,
  },
});
