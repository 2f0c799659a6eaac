import { parseArgs } from 'node:util';
import { simulateRunpod } from '../test/runpod-simulation/world.ts';
import { readSeeds, runSeeds, seedOptions } from './seeds.ts';

/**
 * A worker in RunPod's endpoint and the platform in one virtual world, with faults; stops at the first seed that breaks
 * a promise.
 * npm run simulate:runpod -- [--seeds N] [--first-seed S] [--events]
 */
const seeds = readSeeds(parseArgs({ options: seedOptions(500) }).values);
let gives = 0;
await runSeeds(seeds, {
  script: 'simulate:runpod',
  run: async (seed) => {
    const result = await simulateRunpod(seed);
    gives += result.gives;
    return result;
  },
  sum: () => `${seeds.count} seeds, jobs given ${gives} times`,
});
