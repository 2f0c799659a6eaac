import { defineConfig } from 'vitest/config';
import { longestFirst } from '../support/longest-first.ts';

/** `npm run test:vllm`: the road over real vLLM. A start is mostly one thread at work, so two go side by side. */
export default defineConfig({
  test: {
    include: ['test/vllm/**/*.test.ts'],
    globalSetup: ['test/vllm/global-setup.ts'],
    maxWorkers: 2,
    sequence: { sequencer: longestFirst('watch', 'engine', 'road', 'prefill', 'swap') },
    // A server starts in 20 s, on a busy machine in minutes; some tests start one of their own.
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
