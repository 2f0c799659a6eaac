import { describe, expect, it } from 'vitest';
import {
  ended,
  type LaunchState,
  moved,
  nameOf,
  newLaunch,
  TRANSITIONS,
} from '../../../src/scheduler/launch.ts';
import { FleetSpec } from '../../../src/scheduler/spec.ts';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

const STATES = Object.keys(TRANSITIONS) as LaunchState[];
const MACHINE = { instance_type: 'local', gpus: 1, disk_gb: null, price_per_hour: null };

function launchIn(state: LaunchState) {
  const row = { id: 'a123456789', name: 'wv-i-chat-a123456789', config_id: 'chat', provider: 'here' };
  const kind = { is_spot: false, is_stand_in: false };
  const why = { ...kind, reason: '', inputs: '', version: null, price_per_hour: 1, replaces: null };
  return { ...newLaunch({ ...row, ...why, machine: MACHINE }, 0), state };
}

describe('the steps of a launch', () => {
  const all = STATES.flatMap((from) => STATES.map((to) => ({ from, to })));
  it.each(all.filter(({ from, to }) => !TRANSITIONS[from].includes(to)))(
    'refuse to go from $from to $to',
    ({ from, to }) => {
      expect(() => moved(launchIn(from), to, 1)).toThrow(`is ${from} cannot become ${to}`);
    },
  );

  it.each(all.filter(({ from, to }) => TRANSITIONS[from].includes(to)))(
    'go from $from to $to, with the time of it',
    ({ from, to }) => {
      const next = moved(launchIn(from), to, 7);
      expect(next).toMatchObject({ state: to, state_at: 7 });
      const reached = next[`${to === 'gone' || to === 'failed' ? 'ended' : to}_at` as 'ended_at'];
      expect(reached).toBe(7);
    },
  );

  it('end as failed where a cause was noted on the way, else as gone', () => {
    expect(ended(launchIn('terminating'), 1)).toMatchObject({ state: 'gone', cause: null });
    const failed = { ...launchIn('terminating'), cause: 'exited' as const };
    expect(ended(failed, 1)).toMatchObject({ state: 'failed', cause: 'exited' });
  });

  it('have names that every provider takes', () => {
    expect(nameOf('abcdefgh', 'c'.repeat(60), 'a123456789').length).toBeLessThanOrEqual(60);
  });
});

describe('orders to launchers', () => {
  it('are given for what is on disk as intended, once', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    fleet.list([]);
    fleet.waiting = 1;
    fleet.reconcile();
    const [intended] = fleet.rows();
    expect(intended).toMatchObject({ state: 'intended', order: 0, config_id: 'chat' });
    const { orders } = fleet.sync();
    expect(orders).toMatchObject([
      { kind: 'launch', launch_id: intended!.id, order: 1, may_exist: false, name: intended!.name },
    ]);
    expect(fleet.row(intended!.id)).toMatchObject({ state: 'requested', order: 1 });
    expect(fleet.sync({}, 'l-2').orders).toEqual([]);
  });

  it('are given again after a minute without an answer, and then ask by name first', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id } = fleet.requested();
    fleet.restart();
    fleet.now += 59_000;
    expect(fleet.sync().orders).toEqual([]);
    fleet.now += 2000;
    expect(fleet.sync().orders).toMatchObject([{ launch_id: id, order: 2, may_exist: true }]);
  });

  it('are given again soon after their effect was not known', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id } = fleet.requested();
    fleet.result(id, 1, { kind: 'unknown', detail: 'the connection broke' });
    expect(fleet.row(id)).toMatchObject({ state: 'requested', detail: 'the connection broke' });
    fleet.now += 15_000;
    expect(fleet.sync().orders).toMatchObject([{ launch_id: id, order: 2, may_exist: true }]);
  });

  it('make one machine where one is wanted, however long its first order is not answered', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id } = fleet.requested();
    fleet.waiting = 1;
    // The launcher is killed in its create, and is back after more than a start usually takes.
    fleet.now += 600_000;
    expect(fleet.list([]).orders).toMatchObject([{ launch_id: id, order: 2, may_exist: true }]);
    fleet.reconcile();
    expect(fleet.rows()).toHaveLength(1);
    fleet.result(id, 2, { kind: 'launched', external_id: 'x-1', price_per_hour: 1 });
    fleet.reconcile();
    expect(fleet.rows()).toMatchObject([{ id, state: 'accepted' }]);
  });

  it('are taken back where nobody answers and another provider takes their place', () => {
    const fleet = new SchedulerHarness();
    const two = { here: { driver: 'runpod' }, there: { driver: 'vast' } };
    const machines = [{ provider: 'here' }, { provider: 'there' }];
    const pools = { chat: { model: 'tiny', slots: 4, max: 3, machines } };
    fleet.scheduler.specs.apply(FleetSpec.parse({ providers: two, pools }), false);
    const { id } = fleet.requested();
    fleet.waiting = 1;
    fleet.now += 600_000;
    const lists = [{ provider: 'there', age_ms: 0, machines: [], error: null }];
    fleet.sync({ drivers: ['vast'], lists }, 'l-2');
    fleet.reconcile();
    expect(fleet.row(id)).toMatchObject({ state: 'terminating', provider: 'here' });
    expect(fleet.rows()).toMatchObject([{ id }, { state: 'intended', provider: 'there' }]);
  });

  it('stay with the machine whose launcher took them', () => {
    const fleet = new SchedulerHarness();
    fleet.apply({}, 'process');
    const { id } = fleet.requested();
    fleet.now += 61_000;
    expect(fleet.sync({ host: 'm-2' }, 'l-2').orders).toEqual([]);
    expect(fleet.sync({ host: 'm-1' }, 'l-3').orders).toMatchObject([{ launch_id: id }]);
  });

  it('are not for a launcher that cannot list the provider, where another one can', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const cannot = { lists: [{ provider: 'here', age_ms: 0, machines: null, error: 'no key is set' }] };
    fleet.sync(cannot, 'keyless');
    fleet.list([]);
    fleet.waiting = 1;
    fleet.reconcile();
    expect(fleet.rows()).toMatchObject([{ state: 'intended' }]);
    expect(fleet.sync(cannot, 'keyless').orders).toEqual([]);
    expect(fleet.sync().orders).toMatchObject([{ kind: 'launch' }]);
    // The other one is gone: it may be that a termination succeeds where a list does not.
    fleet.scheduler.specs.remove(false);
    fleet.reconcile();
    fleet.now += 61_000;
    fleet.reconcile();
    expect(fleet.sync(cannot, 'keyless').orders).toMatchObject([{ kind: 'terminate' }]);
  });

  it('take the id from an older order, but no refusal', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id } = fleet.requested();
    fleet.now += 61_000;
    fleet.sync();
    fleet.result(id, 1, { kind: 'no_capacity', detail: 'none' });
    expect(fleet.row(id)).toMatchObject({ state: 'requested', order: 2 });
    fleet.result(id, 1, { kind: 'launched', external_id: 'x-9', price_per_hour: 3 });
    expect(fleet.row(id)).toMatchObject({ state: 'accepted', external_id: 'x-9', price_per_hour: 3 });
  });

  it('may be answered twice', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id } = fleet.requested();
    fleet.result(id, 1, { kind: 'no_capacity', detail: 'sold out' });
    fleet.result(id, 1, { kind: 'launched', external_id: 'x-9', price_per_hour: 3 });
    fleet.result(id, 1, { kind: 'no_capacity', detail: 'sold out' });
    expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'no_capacity', external_id: null });
  });
});

describe('a launcher that ends', () => {
  it('ends its processes with it, which is no failure', () => {
    const fleet = new SchedulerHarness();
    fleet.apply({}, 'process');
    const { id } = fleet.ready();
    fleet.result(id, 1, { kind: 'terminated' });
    expect(fleet.row(id)).toMatchObject({ state: 'gone', cause: null });
  });
});

describe('the worker of a launch', () => {
  it('is registered and ready by its id, whether anybody told the id of its machine or not', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id, name } = fleet.requested();
    fleet.session(name, { capacity: 0 });
    fleet.reconcile();
    expect(fleet.row(id)).toMatchObject({ state: 'registered', external_id: null });
    fleet.session(name, { capacity: 4 });
    fleet.reconcile();
    expect(fleet.row(id)).toMatchObject({ state: 'ready' });
    fleet.now += 120_000;
    expect(fleet.sync().orders).toEqual([]);
  });

  it('is launched by hand, and the decision says that an operator asked for it, and until when', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    fleet.list([]);
    expect(fleet.scheduler.control('chat', 'launch', false)).toMatchObject({ ok: true });
    fleet.reconcile();
    expect(fleet.rows()).toMatchObject([
      {
        state: 'intended',
        reason: '1 worker wanted: at least 1 is to run, as an operator asked, until 12:10 UTC.',
      },
    ]);
  });

  it('is terminated only once the queue has answered that it runs nothing', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id, name } = fleet.ready();
    fleet.running[name] = 1;
    expect(fleet.scheduler.control('chat', 'drain', false)).toMatchObject({ ok: true, control: 'drained' });
    expect(fleet.scheduler.cordon()).toEqual([name]);
    fleet.reconcile(5);
    expect(fleet.row(id).state).toBe('draining');
    fleet.reconcile(5, { cordoned: null, backlog: new Map() });
    expect(fleet.row(id).state).toBe('draining');
    fleet.list([{ name, external_id: 'x-1' }]);
    fleet.running[name] = 0;
    fleet.reconcile(5);
    expect(fleet.row(id).state).toBe('terminating');
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', launch_id: id, external_id: 'x-1' }]);
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.row(id)).toMatchObject({ state: 'gone', cause: null });
  });

  it('that got a job while it was being given up finishes that first', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id, name } = fleet.accepted();
    fleet.running[name] = 1;
    fleet.scheduler.control('chat', 'drain', false);
    expect(fleet.row(id).state).toBe('terminating');
    fleet.reconcile();
    expect(fleet.sync().orders).toEqual([]);
    fleet.running[name] = 0;
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', launch_id: id }]);
  });

  it('has a good token until its launch has ended', () => {
    const fleet = new SchedulerHarness();
    fleet.apply();
    const { id, name } = fleet.accepted();
    expect(fleet.scheduler.workerOf(id)).toEqual({ worker_id: name, config_id: 'chat', price_per_hour: 2 });
    fleet.scheduler.control('chat', 'drain', false);
    fleet.reconcile();
    fleet.sync();
    expect(fleet.scheduler.workerOf(id)).toEqual({ worker_id: name, config_id: 'chat', price_per_hour: 2 });
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.scheduler.workerOf(id)).toBeNull();
  });
});
