import { defineConfig } from 'vitest/config';

/** `npm run test:kubernetes`: the manifests and the driver of Kubernetes over a real cluster. One node, so one at a time. */
export default defineConfig({
  test: {
    include: ['test/kubernetes/**/*.test.ts'],
    globalSetup: ['test/kubernetes/global-setup.ts'],
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 180_000,
  },
});
