import { describe, expect, it } from 'vitest';
import { HISTORY_SERIES } from '../../../src/protocol/index.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { histogram, pool, session } from '../../support/queue-share.ts';

const worker = { kind: 'worker', id: 'w' } as const;
const cfg = { kind: 'pool', id: 'cfg' } as const;
const HOUR_S = 3600;

/** The newest values of a series, oldest first. */
function newest(
  fleet: FleetHarness,
  of: typeof worker | typeof cfg,
  name: string,
  count: number,
  range: '1h' | '24h' = '1h',
) {
  return fleet.history(of, range).series[name]?.slice(-count);
}

/** A beat every ten seconds, stored as the object does. */
function beats(fleet: FleetHarness, seconds: number, tokens_per_second: number): void {
  for (let second = 0; second < seconds; second += 10) {
    fleet.heartbeat('w', { interval_seconds: 10, tokens_per_second });
    fleet.advance(10);
    fleet.rules.save();
  }
}

const rows = (fleet: FleetHarness) =>
  fleet.database
    .prepare(`SELECT kind, id, start, step_ms FROM history WHERE kind != 'fleet' ORDER BY kind, start`)
    .all();

describe('the history of a worker', () => {
  it('has a value every ten seconds of the newest hour, and every series of its kind', () => {
    const fleet = new FleetHarness();
    const gpus = [
      { utilization: 0.5, memory_used_bytes: 1e9, temperature_celsius: 60, power_watts: 100 },
      { utilization: 0.7, memory_used_bytes: 3e9, temperature_celsius: 70, power_watts: 150 },
    ];
    beats(fleet, 20, 5);
    fleet.heartbeat('w', { interval_seconds: 10, tokens_per_second: 123.456, kv_cache_usage: 0.5, gpus });
    const history = fleet.history(worker, '1h');
    expect([history.step_ms, history.at.length, history.at.at(-1)]).toEqual([10_000, 360, fleet.nowMs]);
    expect(Object.keys(history.series)).toEqual([...HISTORY_SERIES.worker]);
    expect(newest(fleet, worker, 'tokens_per_second', 4)).toEqual([null, 5, 5, 123.5]);
    expect(Object.values(history.series).map((values) => values.at(-1))).toEqual([
      123.5,
      null,
      null,
      null,
      null,
      0.5,
      0.6,
      4e9,
      70,
      250,
    ]);
  });

  it('holds a measurement since the heartbeat before it, but not over a silence', () => {
    const fleet = new FleetHarness();
    const beat = (tokens_per_second: number) =>
      fleet.heartbeat('w', { interval_seconds: 30, tokens_per_second });
    beat(1);
    fleet.advance(30);
    beat(2);
    fleet.advance(90);
    beat(3);
    expect(newest(fleet, worker, 'tokens_per_second', 13)).toEqual([
      1,
      2,
      2,
      2,
      null,
      null,
      null,
      null,
      null,
      null,
      null,
      null,
      3,
    ]);
  });

  it('is rolled up in place to minutes when it is an hour old, and is gone after a day', () => {
    const fleet = new FleetHarness();
    beats(fleet, 600, 4);
    beats(fleet, 600, 8);
    const first = fleet.nowMs - 1_200_000;
    fleet.advance(HOUR_S + 600);
    fleet.heartbeat('w', { tokens_per_second: 1 });
    fleet.rules.save();
    expect(rows(fleet).filter(({ start }) => Number(start) < fleet.nowMs - 3_600_000)).toMatchObject([
      { start: first, step_ms: 60_000 },
      { start: first + 600_000, step_ms: 60_000 },
    ]);
    const { at, series } = fleet.history(worker, '24h');
    const from = at.indexOf(first);
    expect(series.tokens_per_second?.slice(from - 1, from + 21)).toEqual([
      null,
      ...Array.from({ length: 10 }, () => 4),
      ...Array.from({ length: 10 }, () => 8),
      null,
    ]);
    fleet.advance(24 * HOUR_S + 600);
    fleet.rules.save();
    expect(rows(fleet)).toHaveLength(1);
  });

  it('goes on after a restart, with its sparkline', () => {
    const fleet = new FleetHarness();
    beats(fleet, 120, 4);
    fleet.restart();
    beats(fleet, 60, 8);
    expect(newest(fleet, worker, 'tokens_per_second', 19)).toEqual([
      ...Array.from({ length: 12 }, () => 4),
      ...Array.from({ length: 6 }, () => 8),
      null,
    ]);
    const [row] = fleet.view().workers;
    expect(row?.tokens_history).toHaveLength(60);
    expect(row?.tokens_history.slice(-5)).toEqual([null, 4, 4, 8, null]);
  });

  it('costs a row for each worker and commit, however many heartbeats come', () => {
    const fleet = new FleetHarness();
    fleet.heartbeat('w', { tokens_per_second: 0 });
    fleet.rules.save();
    const before = fleet.writes;
    for (let n = 0; n < 1000; n++) fleet.heartbeat('w', { tokens_per_second: n });
    expect(fleet.writes).toBe(before);
    fleet.rules.save();
    const written = rows(fleet);
    expect(written).toHaveLength(1);
  });
});

describe('the history of a pool', () => {
  it('has how many came and ended in each step, and percentiles of merged histograms', () => {
    const fleet = new FleetHarness();
    const waits = [0.2, 0.2, 0.2, 4];
    fleet.share({
      full: true,
      sessions: [session('w', { running: 2 })],
      pools: [
        pool('cfg', {
          pending: { waiting: 0, stored: 3 },
          running: 2,
          totals: { submitted: 9, succeeded: 4, tokens_out: 100 },
          wait_buckets: histogram('wait', waits),
        }),
      ],
    });
    fleet.advance(10);
    fleet.share({
      pools: [
        pool('cfg', {
          pending: { waiting: 0, stored: 1 },
          running: 2,
          totals: { submitted: 9, succeeded: 6, tokens_out: 150 },
          wait_buckets: histogram('wait', [...waits, 4, 4, 4, 4]),
        }),
      ],
    });
    fleet.advance(10);
    const last = (name: string) => newest(fleet, cfg, name, 4);
    expect(Object.keys(fleet.history(cfg, '1h').series)).toEqual([...HISTORY_SERIES.pool]);
    expect(last('waiting')).toEqual([null, 3, 1, 1]);
    expect(last('slots')).toEqual([null, 4, 4, 4]);
    expect(last('submitted')).toEqual([null, 9, 0, 0]);
    expect(last('tokens_out')).toEqual([null, 100, 50, 0]);
    expect(last('wait_ms_p50')?.map((ms) => ms && Math.round(ms))).toEqual([null, 367, 3750, null]);
    const { now, hour } = fleet.view().pools[0]!;
    expect(now).toMatchObject({ submitted: 9, succeeded: 6, tokens_out: 150, first_token_ms: null });
    // Five of eight waited from 2.5 to 5 s: the median is a fifth into that bucket.
    expect(hour.wait_ms).toEqual({ p50: 3000, p95: 4800, p99: 4960, n: expect.any(Number) });
  });

  it('rolls over: a minute, an hour and a day each forget what is older', () => {
    const fleet = new FleetHarness();
    fleet.share({ full: true, pools: [pool('cfg', { totals: { submitted: 5 } })] });
    const counted = () => {
      const { now, hour, day } = fleet.view().pools[0]!;
      return [now.submitted, hour.submitted, day.submitted];
    };
    expect(counted()).toEqual([5, 5, 5]);
    fleet.advance(61);
    expect(counted()).toEqual([0, 5, 5]);
    fleet.advance(HOUR_S);
    expect(counted()).toEqual([0, 0, 5]);
    fleet.advance(24 * HOUR_S);
    expect(counted()).toEqual([0, 0, 0]);
  });

  it('counts nothing twice when the queue tells all again, also to a fleet object that has restarted', () => {
    const fleet = new FleetHarness();
    const share = { full: true, pools: [pool('cfg', { totals: { submitted: 5 } })] };
    fleet.share(share);
    fleet.share(share);
    fleet.rules.save();
    fleet.restart();
    fleet.share({ full: true, pools: [pool('cfg', { totals: { submitted: 7 } })] });
    const { now, day } = fleet.view().pools[0]!;
    expect([now.submitted, day.submitted]).toEqual([7, 7]);
  });

  it('counts from 0 after the queue has lost its counts', () => {
    const fleet = new FleetHarness();
    fleet.share({ full: true, pools: [pool('cfg', { totals: { submitted: 5 } })] });
    fleet.share({ full: true, pools: [pool('cfg', { totals: { submitted: 2 } })] });
    expect(fleet.view().pools[0]?.now.submitted).toBe(7);
  });

  it('counts nothing again after a pool was idle for longer than anything else is remembered', () => {
    const fleet = new FleetHarness({ retention_seconds: HOUR_S });
    fleet.share({ full: true, pools: [pool('cfg', { totals: { submitted: 1000, failed: 400 } })] });
    fleet.rules.save();
    fleet.advance(25 * HOUR_S);
    fleet.rules.save();
    fleet.share({ pools: [pool('cfg', { totals: { submitted: 1001, failed: 400 } })] });
    expect(fleet.view().pools[0]?.now).toMatchObject({ submitted: 1, failed: 0 });
    expect(fleet.view().attention).toEqual([]);
  });

  it('shows a level that has not changed for hours as it still is', () => {
    const fleet = new FleetHarness();
    fleet.share({ full: true, pools: [pool('cfg', { pending: { waiting: 0, stored: 2 } })] });
    fleet.rules.save();
    fleet.advance(3 * HOUR_S);
    expect(newest(fleet, cfg, 'waiting', 360)?.every((value) => value === 2)).toBe(true);
    expect(newest(fleet, cfg, 'submitted', 2)).toEqual([0, 0]);
  });
});
