import { defineConfig } from 'vitest/config';

const shared = {
  globalSetup: ['test/global-setup.ts'],
  // Longer than `until` waits for one state, so that a failure names what was waited for.
  testTimeout: 150_000,
  hookTimeout: 150_000,
};

/**
 * Files of test/road that run once more at a queue with two gateways in processes of their own: those of what gateways
 * or the relays in them do. What clients, workers or the owner do is the same there, and `gateway-apart` asks each kind
 * of route once.
 */
const AT_GATEWAYS = [
  'failures',
  'hang-ups',
  'job-stream',
  'large',
  'moving',
  'responses-background',
  'responses-socket',
  'routes',
  'usage',
];

/** `npm test`: everything that needs nothing but npm. Others' clients, real engines, Docker and the browser have configurations of their own. */
export default defineConfig({
  test: {
    // Half of their time tests wait for a time limit or a process, so four files keep two cores busy.
    maxWorkers: 4,
    projects: [
      {
        test: {
          ...shared,
          name: 'rules',
          include: ['test/rules/**/*.test.ts'],
          // Hundreds of small files: loading the sources anew for each takes longer than the tests.
          isolate: false,
        },
      },
      {
        test: {
          ...shared,
          name: 'roads',
          include: ['test/**/*.test.ts'],
          exclude: [
            'test/{browser,clients,cloudflare,docker,engines,journal,kubernetes,package,prometheus,release,rules,upgrade,vllm}/**',
          ],
        },
      },
      {
        test: {
          ...shared,
          name: 'gateways',
          include: [`test/road/{${AT_GATEWAYS}}.test.ts`],
          env: { TEST_QUEUE: 'gateways' },
        },
      },
      {
        test: {
          ...shared,
          name: 'package',
          include: ['test/package/**/*.test.ts'],
          globalSetup: ['test/package/global-setup.ts'],
        },
      },
    ],
  },
});
