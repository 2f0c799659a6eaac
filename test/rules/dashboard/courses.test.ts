import { describe, expect, it } from 'vitest';
import { chartsOf } from '../../../src/dashboard/courses/charts.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { pool } from '../../support/queue-share.ts';

describe('charts over time', () => {
  it('show counts by the second, whatever the step, and shares of what came', () => {
    const fleet = new FleetHarness();
    const totals = { submitted: 30, tokens_in: 200, tokens_cached: 50 };
    fleet.share({ full: true, pools: [pool('cfg', { totals })] });
    for (const [range, seconds] of [
      ['1h', 10],
      ['24h', 60],
      ['7d', 3600],
    ] as const) {
      const charts = chartsOf(fleet.history({ kind: 'pool', id: 'cfg' }, range));
      const newest = (title: string) =>
        charts.find((chart) => chart.title === title)?.lines.map(({ values }) => values.at(-1));
      expect(newest('Requests a second')).toEqual([30 / seconds, 0]);
      expect(newest('Prompt tokens from the cache')).toEqual([0.25]);
      expect(newest('Machines, US dollars an hour')).toBeUndefined();
    }
  });

  it('of a model are those that its requests tell', () => {
    const fleet = new FleetHarness();
    const titles = chartsOf(fleet.history({ kind: 'model', id: 'tiny' }, '1h')).map(({ title }) => title);
    expect(titles).toContain('Time to the first token');
    expect(titles).not.toContain('Workers by state');
    expect(titles).not.toContain('Waiting and running');
  });
});
