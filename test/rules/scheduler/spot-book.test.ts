import { beforeEach, describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

/** What a pool's spot machines did in a week. */
let fleet: SchedulerHarness;
const VAST = { drivers: ['vast'] };
const HOUR = 3600;
const spot = () => fleet.scheduler.scaling()?.pools.get('chat')?.spot;

beforeEach(() => {
  fleet = new SchedulerHarness();
  const machines = [
    { provider: 'here', instance_type: 'a', price_per_hour: 1 },
    { provider: 'here', instance_type: 'a', price_per_hour: 0.4, spot: true },
  ];
  fleet.apply({ machines, spot: { base: 0 } }, 'vast');
});

/** A spot machine is launched, for $0.30 an hour, runs for so many hours and is taken back. @returns its name */
function run(hours: number): string {
  fleet.list([], 0, VAST);
  fleet.waiting = 1;
  fleet.reconcile();
  fleet.waiting = 0;
  const [order] = fleet.sync(VAST).orders;
  const { launch_id, name } = order!;
  const outcome = { kind: 'launched', external_id: name, price_per_hour: 0.3 } as const;
  fleet.sync({ ...VAST, results: [{ launch_id, order: 1, outcome }] });
  fleet.session(name);
  fleet.reconcile();
  fleet.now += hours * HOUR * 1000;
  fleet.list([{ name, external_id: name, state: 'ended', preempted: true }], 0, VAST);
  fleet.sessions = [];
  fleet.reconcile();
  const end = fleet.sync(VAST).orders.find((one) => one.launch_id === launch_id && one.kind === 'terminate');
  fleet.sync({ ...VAST, results: [{ launch_id, order: end!.order, outcome: { kind: 'terminated' } }] });
  return name;
}

describe('the week of a pool with spot machines', () => {
  it('counts what was taken back, and what on-demand machines would have cost more', () => {
    expect(spot()).toBeNull();
    run(2);
    expect(spot()?.lost).toBe(1);
    // 2 h at $0.70 less than on demand.
    expect(spot()?.saved).toBeCloseTo(1.4, 2);
    run(1);
    expect(spot()?.lost).toBe(2);
    expect(spot()?.saved).toBeCloseTo(2.1, 2);
  });

  it('is still known after a restart, and ends after seven days', () => {
    run(2);
    fleet.restart();
    fleet.reconcile();
    expect(spot()?.lost).toBe(1);
    fleet.now += 6 * 24 * HOUR * 1000;
    expect(spot()?.lost).toBe(1);
    fleet.now += 24 * HOUR * 1000;
    expect(spot()?.lost ?? 0).toBe(0);
  });

  it('counts requests that go on elsewhere only once the machine that they left has ended', () => {
    const name = run(1);
    fleet.scheduler.displaced(name, { moved: 1, repeated: 2 });
    fleet.scheduler.displaced('somebody', { moved: 5, repeated: 5 });
    expect(spot()).toMatchObject({ lost: 1, moved: 1, repeated: 2 });
  });

  it('counts the hours of the newest seven days alone, whenever the machine ended', () => {
    run(7 * 24);
    // All but the twelve hours of the first day.
    expect(spot()?.saved).toBeCloseTo(6.5 * 24 * 0.7, 1);
    fleet.now += 5 * 24 * HOUR * 1000;
    expect(spot()?.saved).toBeCloseTo(1.5 * 24 * 0.7, 1);
  });

  it('compares with nothing where every machine is a spot machine', () => {
    fleet.apply({ machines: [{ provider: 'here', price_per_hour: 0.4, spot: true }] }, 'vast');
    run(2);
    expect(spot()).toEqual({ lost: 1, moved: 0, repeated: 0, saved: null });
  });
});
