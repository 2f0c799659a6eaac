import { describe, expect, it } from 'vitest';
import { type Contender, Pace, shareOut } from '../../../src/batches/feeder.ts';

const contender = (more: Partial<Contender>): Contender => ({
  tenant: null,
  waiting: 100,
  submitted: 0,
  latest_start: 0,
  ...more,
});

const shares = (contenders: Contender[], places: number) => {
  const given = shareOut(contenders, places);
  return contenders.map((one) => given.get(one) ?? 0);
};

describe('places in the queue', () => {
  it('go to the batch that must begin first, then to the next', () => {
    const late = contender({ latest_start: 2 });
    const soon = contender({ latest_start: 1, waiting: 3 });
    expect(shares([late, soon], 5)).toEqual([2, 3]);
    expect(shares([late, soon], 2)).toEqual([0, 2]);
    expect(shares([late, soon], -5)).toEqual([0, 0]);
  });

  it('are shared equally by tenants, whatever each has submitted', () => {
    const many = [1, 2, 3].map((latest_start) => contender({ tenant: 'a', latest_start }));
    const one = contender({ tenant: 'b', latest_start: 9 });
    expect(shares([...many, one], 10)).toEqual([5, 0, 0, 5]);
    // What the queue has of a tenant counts, also of a batch with nothing left to submit.
    const running = contender({ tenant: 'b', waiting: 0, submitted: 6 });
    expect(shares([...many, one, running], 10)).toEqual([8, 0, 0, 2, 0]);
    expect(shares([contender({ tenant: 'a', waiting: 1 }), one], 10)).toEqual([1, 9]);
  });
});

describe('the pace of a pool', () => {
  it('is what was done of late, and nothing where nothing was', () => {
    const pace = new Pace();
    expect(pace.timeFor('cfg', 100, 0)).toBe(0);
    for (let second = 0; second < 60; second++) pace.done('cfg', 10, second * 1000);
    expect(pace.timeFor('cfg', 100, 60_000)).toBeCloseTo(10_000, -2);
    expect(pace.timeFor('other', 100, 60_000)).toBe(0);
    expect(pace.timeFor('cfg', 100, 3_600_000)).toBe(0);
  });
});
