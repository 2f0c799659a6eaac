import { describe, expect, it } from 'vitest';
import { compare, madeUpTrace } from './comparison.ts';
import { drawPlan } from './plan.ts';
import { generate } from './trace.ts';
import { simulateFleet } from './world.ts';

/** More on demand: node scripts/simulate-fleet.ts --seeds 500. */
const SEEDS = 3;

describe('scheduler, launcher and providers in one virtual world', () => {
  it('runs the same, event for event, for the same seed', async () => {
    const [first, second] = [await simulateFleet(drawPlan(3)), await simulateFleet(drawPlan(3))];
    expect(second.lines).toEqual(first.lines);
    expect(first.launches).toBeGreaterThan(0);
  }, 120_000);

  it(`keeps every promise over ${SEEDS} seeds of broken providers, networks and processes`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { violation, lines } = await simulateFleet(drawPlan(seed));
      if (violation) expect.fail(`seed ${seed}: ${lines.join('\n')}`);
    }
  }, 300_000);
});

describe('the scaling rule over a trace', () => {
  it('needs fewer GPU hours than KEDA’s rule, for waits that are no longer', () => {
    const rows = compare(madeUpTrace(), [180]);
    const of = (name: string) => rows.find(({ rule }) => rule.includes(name))!.figures;
    for (const [index, ours] of of('scheduler').entries()) {
      const keda = of('KEDA')[index]!;
      expect(ours.gpu_hours).toBeLessThan(keda.gpu_hours * 0.9);
      expect(ours.p95).toBeLessThanOrEqual(keda.p95 + 0.5);
      expect(ours.launches).toBeLessThan(keda.launches / 2);
    }
  }, 120_000);

  it('makes the same trace of the same seed', () => {
    expect(generate(2, 0.1, 5)).toEqual(generate(2, 0.1, 5));
    expect(generate(2, 0.1, 5)).not.toEqual(generate(3, 0.1, 5));
  });
});
