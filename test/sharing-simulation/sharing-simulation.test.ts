import { describe, expect, it } from 'vitest';
import { simulateSharing } from './world.ts';

/** More on demand: node scripts/simulate-sharing.ts --seeds 500. */
const SEEDS = 15;

describe('tenants with weights and limits, over the rules of a queue', () => {
  it(`are promised what docs/sharing.md says, over ${SEEDS} seeds of floods, deaths and restarts`, () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violation, lines, given } = simulateSharing(seed);
      if (violation)
        expect.fail(`seed ${seed}: ${violation.promise}: ${violation.message}\n${lines.join('\n')}`);
      expect(given).toBeGreaterThan(0);
    }
  });
});
