import { describe, expect, it } from 'vitest';
import { chartsOf } from '../../../src/dashboard/views/history-charts.ts';
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
      const history = fleet.history({ kind: 'pool', id: 'cfg' }, range);
      const charts = chartsOf(history, history.at.at(-1)! + history.step_ms);
      const newest = (title: string) =>
        charts.find((chart) => chart.title === title)?.lines.map(({ values }) => values.at(-1));
      expect(newest('Requests a second')).toEqual([30 / seconds, 0]);
      expect(newest('Prompt tokens from the cache')).toEqual([0.25]);
      expect(newest('Machines, US dollars an hour')).toBeUndefined();
    }
  });

  it('tell nothing of a step that has just begun, and of a longer one what came in it so far', () => {
    const fleet = new FleetHarness();
    const totals = { submitted: 30, failed: 2, tokens_in: 600 };
    fleet.share({ full: true, pools: [pool('cfg', { totals })] });
    const newest = (range: '1h' | '7d', passed: number, title: string) => {
      const history = fleet.history({ kind: 'pool', id: 'cfg' }, range);
      const charts = chartsOf(history, history.at.at(-1)! + passed);
      return charts.find((chart) => chart.title === title)?.lines[0]?.values.at(-1);
    };
    expect(newest('1h', 3000, 'Tokens a second')).toBeNull();
    expect(newest('1h', 3000, 'Not succeeded')).toBeNull();
    expect(newest('1h', 10_000, 'Tokens a second')).toBe(60);
    expect(newest('7d', 60_000, 'Tokens a second')).toBe(10);
    expect(newest('7d', 60_000, 'Not succeeded')).toBe(2);
  });

  it('of a model are those that its requests tell', () => {
    const fleet = new FleetHarness();
    const titles = chartsOf(fleet.history({ kind: 'model', id: 'tiny' }, '1h'), 0).map(({ title }) => title);
    expect(titles).toContain('Time to the first token');
    expect(titles).not.toContain('Workers by state');
    expect(titles).not.toContain('Waiting and running');
  });
});
