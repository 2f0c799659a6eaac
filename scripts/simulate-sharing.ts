import { simulateSharing } from '../test/sharing-simulation/world.ts';
import { runSeeds, type Seeds, simulationLine } from './seeds.ts';

/** `node scripts/simulate-sharing.ts` */

const given = simulationLine(
  'node scripts/simulate-sharing.ts',
  'runs tenants with weights and limits over the rules of a queue, with faults; stops at the first seed that breaks a promise',
  500,
)
  .parse()
  .opts<Seeds>();
let jobs = 0;
await runSeeds(given, {
  call: 'node scripts/simulate-sharing.ts',
  run: (seed) => {
    const result = simulateSharing(seed);
    jobs += result.given;
    return result;
  },
  sum: () => `${given.seeds} seeds, jobs given ${jobs} times`,
});
