import { describe, expect, it } from 'vitest';
import { FleetSpec } from '../../../src/scheduler/spec.ts';
import { FleetHarness } from '../../support/fleet-harness.ts';
import { histogram, type PoolNumbers, pool, session } from '../../support/queue-share.ts';

/** A fleet with one ready worker, which the queue told this of its pool. */
function fleetWith(numbers: PoolNumbers): FleetHarness {
  const fleet = new FleetHarness();
  fleet.registered('w');
  fleet.share({ full: true, sessions: [session('w')], pools: [pool('cfg', numbers)] });
  return fleet;
}

const minutes = (fleet: FleetHarness, count: number) => fleet.advance(60 * count);
const firstTokens = (seconds: number[]) => histogram('first_token', seconds);
const standing = (fleet: FleetHarness) => fleet.view().pools[0]!.objectives;
const codes = (fleet: FleetHarness) =>
  fleet.view().attention.map(({ code, severity }) => `${code} ${severity}`);

describe('an objective of success', () => {
  it('is missed by jobs that fail, expire or are turned away, and not by those that a limit refused', () => {
    const totals = { submitted: 100, succeeded: 60, failed: 10, expired: 5, rejected: 20, turned_away: 5 };
    const { success } = standing(fleetWith({ totals }));
    expect(success.long).toEqual({ missed: 20, of: 80, burn: 25 });
  });

  it('degrades the verdict and is an error while it is missed much faster than it allows', () => {
    const fleet = fleetWith({ totals: { submitted: 27, succeeded: 10, turned_away: 17 } });
    expect(fleet.view().summary).toMatchObject({
      verdict: 'degraded',
      text: 'cfg: 17 of 27 jobs failed, expired or found no slot within five minutes (63 %; the objective allows 1 %).',
    });
    expect(fleet.view().attention).toMatchObject([
      {
        code: 'objective_missed',
        severity: 'error',
        text: 'cfg: 17 of 27 jobs failed, expired or found no slot within the hour (63 %; the objective allows 1 %).',
      },
    ]);
    minutes(fleet, 6);
    expect(fleet.view().summary.verdict).toBe('serving');
    expect(codes(fleet)).toEqual([]);
  });

  it('is a warning where the newest minutes alone miss it', () => {
    const fleet = fleetWith({ totals: { submitted: 1000, succeeded: 1000 } });
    minutes(fleet, 10);
    fleet.share({ pools: [pool('cfg', { totals: { submitted: 1020, succeeded: 1010, failed: 10 } })] });
    expect(codes(fleet)).toEqual(['objective_missed warning']);
    expect(fleet.view().summary.verdict).toBe('degraded');
  });

  it('is not missed by fewer than five', () => {
    expect(codes(fleetWith({ totals: { submitted: 8, succeeded: 4, failed: 4 } }))).toEqual([]);
  });
});

describe('an objective for the first token', () => {
  it('is held against callers on a connection, and counts within a bucket by its share', () => {
    const late = Array<number>(30).fill(15);
    const numbers = {
      first_token_buckets: firstTokens([...late, ...late]),
      live_first_token_buckets: firstTokens([...late, ...Array<number>(70).fill(0.2)]),
    };
    const fleet = fleetWith(numbers);
    const { first_token } = standing(fleet);
    expect(first_token).toMatchObject({ within_ms: 10_000, share: 0.95 });
    expect(first_token.long).toEqual({ missed: 30, of: 100, burn: 6 });
    expect(fleet.view().attention).toMatchObject([
      {
        code: 'objective_missed',
        severity: 'warning',
        text: 'cfg: 30 of 100 callers waited longer than 10 s for their first token within the hour (30 %; the objective allows 5 %).',
      },
    ]);
  });

  it('degrades the verdict as soon as callers wait longer than it says, though workers are ready', () => {
    const fleet = new FleetHarness();
    fleet.registered('w');
    const waits = () =>
      fleet.share({
        sessions: [session('w', { capacity: 4, running: 4 })],
        pools: [
          pool('cfg', {
            pending: { waiting: 17, stored: 0 },
            oldest_since: since,
            oldest_caller_since: since,
            running: 4,
          }),
        ],
      });
    const since = fleet.nowMs;
    waits();
    fleet.advance(9);
    expect(fleet.view().summary.verdict).toBe('serving');
    fleet.advance(13);
    expect(fleet.view().summary.verdict).toBe('degraded');
    expect(fleet.view().summary.text).toContain('17 jobs wait 22 s because all 4 slots are busy');
    expect(codes(fleet)).toEqual(['jobs_wait warning']);
  });

  it('goes on after a restart', () => {
    const fleet = fleetWith({ live_first_token_buckets: firstTokens(Array<number>(20).fill(15)) });
    fleet.rules.save();
    fleet.restart();
    const share = pool('cfg', { live_first_token_buckets: firstTokens(Array<number>(20).fill(15)) });
    fleet.share({ full: true, pools: [share] });
    expect(standing(fleet).first_token.long).toEqual({ missed: 20, of: 20, burn: 20 });
  });
});

it("comes from the fleet's file, in part or whole, for the pools that it names", () => {
  const fleet = fleetWith({ live_first_token_buckets: firstTokens(Array<number>(20).fill(3)) });
  const burn = () => standing(fleet).first_token.long.burn;
  expect(burn()).toBe(0);
  const spec = (objectives: object) =>
    FleetSpec.parse({
      providers: { local: { driver: 'process' } },
      pools: { cfg: { model: 'tiny', objectives, machines: [{ provider: 'local', price_per_hour: 0 }] } },
    });
  fleet.rules.scheduler.specs.apply(spec({ first_token: { within: '1s' }, success: 0.995 }), false);
  expect(standing(fleet)).toMatchObject({
    first_token: { within_ms: 1000, share: 0.95, long: { missed: 20, of: 20, burn: 20 } },
    success: { share: 0.995 },
  });
  expect(() => spec({ success: 1 })).toThrow('success');
});
