import { expect, it } from 'vitest';
import { Blame } from './blame.ts';
import type { Link } from './network.ts';
import { drawPlan, type Plan } from './plan.ts';
import type { Timeline } from './timeline.ts';

/** The violations after a lease ran out at an undisturbed worker that drained, whose attempt began at `givenAt` s. */
function afterDrain({ isBase, givenAt }: { isBase: boolean; givenAt: number }): string[] {
  const drawn = drawPlan(1);
  const plan: Plan = { ...drawn, workers: [{ ...drawn.workers[0]!, name: 'w1', isBase }] };
  const clock = { now: 0 };
  const found: string[] = [];
  const blame = new Blame(plan, clock as Timeline, (promise) => found.push(promise));
  const link = { isOpen: true, isBroken: false, process: { name: 'w1', boot: 'w1.1' } };
  const steps = {
    10: () => blame.bootDrains('w1.1'),
    [givenAt]: () => blame.dispatched('j1', 1, link as Link),
  };
  for (const [at, step] of Object.entries(steps)) {
    clock.now = Number(at) * 1000;
    step();
  }
  const error = { code: 'lease_expired', fence_token: 1, error: 'its lease ran out', at: 400_000 };
  blame.charged('j1', error as never, false, 400_000);
  return found;
}

it('lets base workers alone lose what comes while they drain', () => {
  const charged = ['only what a job can be blamed for is charged'];
  expect(afterDrain({ isBase: true, givenAt: 20 })).toEqual([]);
  expect(afterDrain({ isBase: true, givenAt: 5 })).toEqual(charged);
  expect(afterDrain({ isBase: false, givenAt: 20 })).toEqual(charged);
});
