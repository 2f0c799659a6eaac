import { parseArgs } from 'node:util';
import { simulateSharing } from '../test/sharing-simulation/world.ts';
import { readSeeds, runSeeds, seedOptions } from './seeds.ts';

/**
 * Tenants with weights and limits over the rules of a queue, with faults; stops at the first seed that breaks a promise.
 * npm run simulate:sharing -- [--seeds N] [--first-seed S] [--events]
 */
const seeds = readSeeds(parseArgs({ options: seedOptions(500) }).values);
let given = 0;
await runSeeds(seeds, {
  script: 'simulate:sharing',
  run: (seed) => {
    const result = simulateSharing(seed);
    given += result.given;
    return result;
  },
  sum: () => `${seeds.count} seeds, jobs given ${given} times`,
});
