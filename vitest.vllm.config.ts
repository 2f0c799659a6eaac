import { defineConfig } from 'vitest/config';

/** `npm run test:vllm`: the road over real vLLM, one server at a time. */
export default defineConfig({
  test: {
    include: ['test/vllm/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 180_000,
    // The first hook may install vLLM into its virtual environment.
    hookTimeout: 900_000,
  },
});
