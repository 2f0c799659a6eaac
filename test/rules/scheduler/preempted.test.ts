import { beforeEach, describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

/** How a spot machine that its provider took back is told from one that failed. */
let fleet: SchedulerHarness;
const VAST = { drivers: ['vast'] };

beforeEach(() => {
  fleet = new SchedulerHarness();
  const machines = [{ provider: 'here', spot: true, price_per_hour: 0.4 }];
  fleet.apply({ min: 1, max: 1, machines, spot: { base: 0 } }, 'vast');
});

/** A launch whose machine was made, and serves if it is ready. */
function launched({ isReady = true } = {}): { id: string; name: string } {
  fleet.list([], 0, VAST);
  fleet.reconcile();
  const [order] = fleet.sync(VAST).orders;
  expect(order).toMatchObject({ kind: 'launch', machine: { spot: true, price_per_hour: 0.4 } });
  const { launch_id: id, name } = order!;
  const outcome = { kind: 'launched', external_id: 'x-1', price_per_hour: 0.3 } as const;
  fleet.sync({ ...VAST, results: [{ launch_id: id, order: 1, outcome }] });
  if (isReady) fleet.session(name);
  fleet.reconcile();
  expect(fleet.row(id)).toMatchObject({ is_spot: true, state: isReady ? 'ready' : 'accepted' });
  return { id, name };
}

const ends = (name: string, more: object) => fleet.list([{ name, state: 'ended', ...more }], 0, VAST);

describe('a spot machine', () => {
  it('was taken back where its provider says so, ready or not, and is ended so that it never comes back', () => {
    for (const isReady of [true, false]) {
      const { id, name } = launched({ isReady });
      ends(name, { preempted: true });
      expect(fleet.row(id)).toMatchObject({ state: 'terminating', cause: 'preempted' });
      fleet.sessions = [];
      fleet.reconcile();
      const [order] = fleet.sync(VAST).orders.filter(({ launch_id }) => launch_id === id);
      expect(order).toMatchObject({ kind: 'terminate', external_id: 'x-1' });
      const outcome = { kind: 'terminated' } as const;
      fleet.sync({ ...VAST, results: [{ launch_id: id, order: order!.order, outcome }] });
      expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'preempted' });
    }
  });

  it('was taken back where it served and is listed no more, or ended without an exit code', () => {
    const { id } = launched();
    fleet.sessions = [];
    for (let s = 0; s < 70; s += 10) {
      fleet.reconcile(10);
      fleet.list([], 0, VAST);
    }
    expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'preempted' });
    const other = launched();
    ends(other.name, { exit_code: null });
    expect(fleet.row(other.id)).toMatchObject({ cause: 'preempted' });
  });

  it.each([true, false])('was taken back where its worker said so, ready (%s) or not', (isReady) => {
    const { id, name } = launched({ isReady });
    fleet.heartbeat(name, { status: 'stopping', preempted: true });
    fleet.sessions = [];
    ends(name, { exit_code: 0 });
    expect(fleet.row(id)).toMatchObject({ cause: 'preempted' });
  });

  it('is replaced as soon as its worker says so', () => {
    const machines = [{ provider: 'here', spot: true, price_per_hour: 0.4 }];
    fleet.apply({ min: 1, max: 2, machines, spot: { base: 0 } }, 'vast');
    const { id, name } = launched();
    fleet.session(name, { state: 'draining', preempted: true });
    fleet.list([{ name }], 0, VAST);
    fleet.reconcile();
    const orders = fleet.sync(VAST).orders.filter(({ kind }) => kind === 'launch');
    expect(orders).toHaveLength(1);
    expect(fleet.row(id).state).toBe('ready');
  });

  it('has failed where its container ended by itself, or its start did', () => {
    const served = launched();
    ends(served.name, { exit_code: 4 });
    expect(fleet.row(served.id)).toMatchObject({ cause: 'exited', exit_code: 4 });
    fleet = new SchedulerHarness();
    const machines = [{ provider: 'here', spot: true, price_per_hour: 0.4 }];
    fleet.apply({ min: 1, max: 1, machines }, 'vast');
    const starting = launched({ isReady: false });
    ends(starting.name, { exit_code: null });
    expect(fleet.row(starting.id)).toMatchObject({ cause: 'exited' });
  });
});

it('takes an on-demand machine whose room was taken away for one that is sold out', () => {
  fleet = new SchedulerHarness();
  fleet.apply({ min: 1, max: 1 });
  const launch = fleet.ready();
  fleet.list([{ name: launch.name, state: 'ended', no_capacity: true, preempted: true }]);
  expect(fleet.row(launch.id)).toMatchObject({ is_spot: false, cause: 'no_capacity' });
});

it('was taken back on demand too, where its provider says so: a cluster drains any node', () => {
  fleet = new SchedulerHarness();
  fleet.apply();
  const launch = fleet.accepted();
  fleet.list([{ name: launch.name, state: 'ended', exit_code: 0, preempted: true }]);
  expect(fleet.row(launch.id)).toMatchObject({ is_spot: false, cause: 'preempted' });
});
