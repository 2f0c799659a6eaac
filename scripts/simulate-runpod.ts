import { simulateRunpod } from '../test/runpod-simulation/world.ts';
import { runSeeds, type Seeds, simulationLine } from './seeds.ts';

/** `node scripts/simulate-runpod.ts` */

const given = simulationLine(
  'node scripts/simulate-runpod.ts',
  "runs a worker in RunPod's endpoint and the platform in one virtual world, with faults; stops at the first seed that breaks a promise",
  500,
)
  .parse()
  .opts<Seeds>();
let gives = 0;
await runSeeds(given, {
  call: 'node scripts/simulate-runpod.ts',
  run: async (seed) => {
    const result = await simulateRunpod(seed);
    gives += result.gives;
    return result;
  },
  sum: () => `${given.seeds} seeds, jobs given ${gives} times`,
});
