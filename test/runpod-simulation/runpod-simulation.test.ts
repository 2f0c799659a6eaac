import { describe, expect, it } from 'vitest';
import { simulateRunpod } from './world.ts';

/** More on demand: node scripts/simulate-runpod.ts --seeds 1000. */
const SEEDS = 30;

describe('a worker in RunPod’s endpoint, in one virtual world with its platform', () => {
  it('runs the same, event for event, for the same seed', async () => {
    const [first, second] = [await simulateRunpod(3), await simulateRunpod(3)];
    expect(second.lines).toEqual(first.lines);
    expect(first.gives).toBeGreaterThan(0);
  });

  it(`keeps every promise over ${SEEDS} seeds of kills, signals, stops, refusals and lost answers`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violation, lines } = await simulateRunpod(seed);
      if (violation) expect.fail(`seed ${seed}: ${violation.message}\n${lines.join('\n')}`);
    }
  });
});
