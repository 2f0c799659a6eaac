import { defineConfig } from 'vitest/config';

/** `npm run test:release`: the command that makes a release, in a clone, and what it makes. */
export default defineConfig({
  test: {
    include: ['test/release/**/*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
