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
        charts.find((chart) => chart.title === title)?.series.map(({ values }) => values.at(-1));
      expect(newest('Requests a second')).toEqual([0, 30 / seconds]);
      expect(newest('Prompt tokens from the cache')).toEqual([0.25]);
      expect(newest('Machines')).toBeUndefined();
    }
  });

  it('leave a rate open until enough of its step has passed, and count in bars what has come so far', () => {
    const fleet = new FleetHarness();
    const totals = { submitted: 30, failed: 2, tokens_out: 600 };
    fleet.share({ full: true, pools: [pool('cfg', { totals })] });
    const newest = (range: '1h' | '24h' | '7d', passed: number, title: string) => {
      const history = fleet.history({ kind: 'pool', id: 'cfg' }, range);
      const charts = chartsOf(history, history.at.at(-1)! + passed);
      return charts.find((chart) => chart.title === title)?.series[0]?.values.at(-1);
    };
    expect(newest('1h', 9000, 'Tokens a second')).toBeNull();
    expect(newest('1h', 10_000, 'Tokens a second')).toBe(60);
    expect(newest('24h', 29_000, 'Tokens a second')).toBeNull();
    expect(newest('24h', 30_000, 'Tokens a second')).toBe(20);
    expect(newest('7d', 60_000, 'Tokens a second')).toBeNull();
    expect(newest('7d', 300_000, 'Tokens a second')).toBe(2);
    expect(newest('1h', 3000, 'Not succeeded')).toBe(2);
    expect(newest('7d', 3000, 'Not succeeded')).toBe(2);
  });

  it('have at most sixty bars, each of which begins at a multiple of its length and lies within the span', () => {
    const fleet = new FleetHarness();
    fleet.advance(17);
    for (const range of ['15m', '1h', '6h', '24h', '7d', '30d'] as const) {
      const history = fleet.history({ kind: 'pool', id: 'cfg' }, range);
      const { at } = chartsOf(history, fleet.nowMs).find(({ title }) => title === 'Not succeeded')!;
      const length = at[1]! - at[0]!;
      expect([range, at.length <= 60, at.length >= 20]).toEqual([range, true, true]);
      expect(at.every((middle) => (middle - length / 2) % length === 0)).toBe(true);
      expect(at[0]! - length / 2).toBeGreaterThanOrEqual(history.at[0]!);
    }
  });

  it('of a model are those that its requests tell', () => {
    const fleet = new FleetHarness();
    const titles = chartsOf(fleet.history({ kind: 'model', id: 'tiny' }, '1h'), 0).map(({ title }) => title);
    expect(titles).toContain('Time to the first token');
    expect(titles).not.toContain('Workers by state');
    expect(titles).not.toContain('Waiting and running');
  });
});
