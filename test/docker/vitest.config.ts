import { defineConfig } from 'vitest/config';
import { longestFirst } from '../support/longest-first.ts';

/** `npm run test:docker`: images, compose and the driver of Docker over a real daemon. */
export default defineConfig({
  test: {
    include: ['test/docker/**/*.test.ts'],
    globalSetup: ['test/docker/global-setup.ts'],
    maxWorkers: 2,
    sequence: { sequencer: longestFirst('rollout', 'health', 'fleet', 'contract') },
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
