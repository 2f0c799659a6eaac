import { defineConfig } from 'vitest/config';

/** What is the same whoever holds the queue; each file starts one by `startQueue`. */
const ROAD = [
  'audit',
  'audit-kills',
  'base-protocol',
  'batch-command',
  'batch-kills',
  'contract',
  'conversations',
  'failures',
  'fleet',
  'job-stream',
  'large',
  'large-responses',
  'openai-client',
  'responses-background',
  'responses-socket',
  'submit-file',
  'usage',
];

/** `npm run test:cloudflare`: the road over the queue as it is deployed, which `wrangler dev` runs here. */
export default defineConfig({
  test: {
    include: ['test/cloudflare/**/*.test.ts', `test/road/{${ROAD}}.test.ts`],
    env: { TEST_QUEUE: 'wrangler' },
    globalSetup: ['test/global-setup.ts'],
    maxWorkers: 2,
    testTimeout: 150_000,
    hookTimeout: 150_000,
  },
});
