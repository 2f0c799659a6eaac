import { describe, expect, it } from 'vitest';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { histogram, pool, session } from '../../support/queue-share.ts';
import { ended } from '../../support/request-records.ts';

const cfg = { kind: 'pool', id: 'cfg' } as const;
const all = { kind: 'fleet', id: '' } as const;
const tiny = { kind: 'model', id: 'tiny' } as const;
const HOUR_S = 3600;

/** An hour in which so many jobs failed, a minute each, and that many waited at its end. */
function hour(fleet: FleetHarness, submitted: number, waiting: number): void {
  for (let minute = 0; minute < 60; minute += 10) {
    const isLast = minute === 50;
    fleet.share({
      pools: [
        pool('cfg', {
          pending: { waiting: isLast ? waiting : 9, stored: 0 },
          totals: { submitted: submitted + minute / 10 },
          first_token_buckets: histogram('first_token', Array(submitted + minute / 10).fill(0.3)),
        }),
      ],
    });
    fleet.rules.save();
    fleet.advance(600);
  }
}

describe('the history beyond a day', () => {
  it('is kept by hour for a month, with counts summed, histograms merged and the most that waited', () => {
    const fleet = new FleetHarness();
    fleet.share({ full: true, pools: [pool('cfg', { totals: { submitted: 0 } })] });
    hour(fleet, 10, 2);
    hour(fleet, 20, 1);
    const from = fleet.nowMs - 2 * HOUR_S * 1000;
    // Rolled up as time goes by, a hundred rows at a time.
    for (let day = 0; day < 3; day++) {
      fleet.advance(24 * HOUR_S);
      for (let save = 0; save < 3; save++) fleet.rules.save();
    }
    const steps = fleet.database.prepare(`SELECT DISTINCT step_ms FROM history WHERE kind = 'pool'`).all();
    expect(steps).toEqual([{ step_ms: 3_600_000 }]);
    for (const subject of [cfg, all]) {
      const { at, step_ms, series } = fleet.history(subject, '7d');
      expect([step_ms, at.length]).toEqual([3_600_000, 168]);
      const first = at.indexOf(from);
      const two = (name: string) => series[name]?.slice(first, first + 2);
      expect(two('submitted')).toEqual([15, 10]);
      expect(two('waiting_most')).toEqual([9, 9]);
      expect(two('waiting')).toEqual([2, 1]);
      expect(two('first_token_ms_p50')?.every((ms) => ms !== null && ms > 250 && ms <= 500)).toBe(true);
      expect(series.waiting?.at(-1)).toBe(1);
    }
    // What is longer ago comes in the steps that are kept of it.
    const then = fleet.history(cfg, '1h', from + HOUR_S * 1000 + 5000);
    expect([then.step_ms, then.at, then.series.submitted]).toEqual([3_600_000, [from + HOUR_S * 1000], [10]]);
    fleet.advance(33 * 24 * HOUR_S);
    fleet.rules.save();
    expect(fleet.history(cfg, '30d').series.submitted?.some((count) => (count ?? 0) > 0)).toBe(false);
  });

  it('shows the newest day in steps of an hour before it is rolled up', () => {
    const fleet = new FleetHarness();
    fleet.share({ full: true, pools: [pool('cfg', { totals: { submitted: 0 } })] });
    hour(fleet, 10, 2);
    expect(fleet.history(cfg, '7d').series.submitted?.slice(-2)).toEqual([15, 0]);
  });
});

describe('the history of a model', () => {
  it('counts a sampled request as often as it stands for, of models that a worker serves', () => {
    const fleet = new FleetHarness();
    fleet.registered('w');
    const records = [
      ended('a', { stands_for: 4, first_token_ms: 300, tokens_out: 11, total_ms: 800 }),
      ended('b', { outcome: 'failed' }),
      ended('c', { model: 'made-up' }),
    ];
    fleet.rules.record([], undefined, records);
    fleet.rules.record([], undefined, records);
    const { series } = fleet.history(tiny, '1h');
    const last = (name: string) => series[name]?.at(-1);
    expect([last('succeeded'), last('failed'), last('tokens_out')]).toEqual([4, 1, 64]);
    expect(last('per_token_ms_p50')).toBeGreaterThan(25);
    expect(last('per_token_ms_p50')).toBeLessThanOrEqual(50);
    const unknown = fleet.history({ kind: 'model', id: 'made-up' }, '1h').series;
    expect(unknown.succeeded?.every((count) => count === null)).toBe(true);
  });
});

describe('what the history of a pool says of its workers', () => {
  it('counts preemptions as they grow, also over a new start of the engine', () => {
    const fleet = new FleetHarness();
    for (const preemptions of [7, 10, 2]) {
      fleet.heartbeat('w', { config_id: 'cfg', preemptions });
      fleet.advance(10);
    }
    expect(fleet.history(cfg, '1h').series.preemptions?.slice(-4)).toEqual([0, 3, 2, 0]);
    expect(fleet.history(all, '1h').series.preemptions?.slice(-4)).toEqual([0, 3, 2, 0]);
  });

  it('counts workers by state, and marks when one became ready', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('starts', { config_id: 'cfg', status: 'starting', phase: 'loading' });
    fleet.share({ full: true, sessions: [session('w')], pools: [pool('cfg')] });
    const workers = (name: string) => fleet.history(cfg, '1h').series[`${name}_workers`]?.at(-1);
    expect(['ready', 'starting', 'failed'].map(workers)).toEqual([1, 1, 0]);
    fleet.advance(600);
    fleet.rules.save();
    expect(['ready', 'starting', 'failed'].map(workers)).toEqual([1, 0, 1]);
    const start = { created_ms: fleet.nowMs - 90_000, engine_healthy_ms: fleet.nowMs };
    fleet.heartbeat('starts', { config_id: 'cfg', start });
    for (const subject of [cfg, all])
      expect(fleet.history(subject, '15m').marks).toEqual([
        { at: fleet.nowMs, kind: 'started', text: 'starts is ready after 1 min' },
      ]);
    fleet.advance(16 * 60);
    expect(fleet.history(cfg, '15m').marks).toEqual([]);
  });
});
