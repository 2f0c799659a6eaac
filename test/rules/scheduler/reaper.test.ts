import { describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

function fleetWithSpec(driver = 'runpod'): SchedulerHarness {
  const fleet = new SchedulerHarness();
  fleet.apply({}, driver);
  return fleet;
}

describe('a list of a provider', () => {
  it('adopts by its name what a launch was asked for', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.requested();
    fleet.list([{ name, external_id: 'x-7', price_per_hour: 4, started_at: fleet.now }]);
    expect(fleet.row(id)).toMatchObject({ state: 'accepted', external_id: 'x-7', price_per_hour: 4 });
    fleet.now += 120_000;
    expect(fleet.sync().orders).toEqual([]);
  });

  it('ends a launch that two of them do not show, a minute apart', () => {
    const fleet = fleetWithSpec();
    const { id } = fleet.accepted();
    fleet.now += 10_000;
    fleet.list([]);
    fleet.now += 59_000;
    fleet.list([]);
    expect(fleet.row(id).state).toBe('accepted');
    fleet.now += 1000;
    fleet.list([]);
    expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'vanished' });
  });

  it('says nothing where it failed, was made before the launch, or leaves out a connected worker', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    for (let n = 0; n < 5; n++) {
      fleet.now += 60_000;
      fleet.list(null);
      fleet.list([], fleet.now - fleet.row(id).accepted_at! + 1);
    }
    expect(fleet.row(id)).toMatchObject({ state: 'accepted', missed_lists: 0 });
    fleet.session(name);
    for (let n = 0; n < 5; n++) {
      fleet.now += 60_000;
      fleet.list([]);
    }
    expect(fleet.row(id).state).toBe('accepted');
  });

  it('has a machine that was made and not started launched again, and waits while it may be under way', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.requested();
    const made = { name, state: 'starting', unstarted: true } as const;
    fleet.now += 5000;
    expect(fleet.list([made]).orders).toEqual([]);
    fleet.now += 10_000;
    expect(fleet.list([made]).orders).toMatchObject([{ kind: 'launch', name, may_exist: true, order: 2 }]);
    expect(fleet.row(id).state).toBe('requested');
    // However often its launcher dies there.
    for (let order = 3; order < 6; order++) {
      fleet.now += 60_000;
      expect(fleet.list([made]).orders).toMatchObject([{ kind: 'launch', name, order }]);
    }
    fleet.list([{ name, state: 'running' }]);
    expect(fleet.row(id).state).toBe('accepted');
  });

  it('has one launched again also where its launch was answered before it was made', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    fleet.now += 20_000;
    const { orders } = fleet.list([{ name, state: 'starting', unstarted: true }]);
    expect(orders).toMatchObject([{ kind: 'launch', name, may_exist: true }]);
    const outcome = { kind: 'launched', external_id: 'x-1', price_per_hour: null } as const;
    fleet.sync({ results: [{ launch_id: id, order: orders[0]!.order, outcome }] });
    fleet.now += 120_000;
    expect(fleet.list([{ name }]).orders).toEqual([]);
    expect(fleet.row(id).state).toBe('accepted');
  });

  it('gives up a launch whose order nobody answered once it was asked for three times', () => {
    const fleet = fleetWithSpec();
    const { id } = fleet.requested();
    for (let n = 0; n < 10; n++) {
      fleet.now += 61_000;
      fleet.list([]);
      if (fleet.row(id).state === 'failed') break;
    }
    expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'vanished', order: 3 });
  });

  it('tells of a container that ended, and whose fault it was', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    fleet.list([{ name, state: 'ended', exit_code: 9, detail: 'no such model', ended_at: fleet.now - 5 }]);
    expect(fleet.row(id)).toMatchObject({
      state: 'terminating',
      cause: 'exited',
      exit_code: 9,
      detail: 'no such model',
      ended_at: fleet.now - 5,
    });
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', launch_id: id }]);
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'exited' });
  });

  it('keeps why a launch failed while its machine, told to end, says why it is still there', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    fleet.list([{ name, state: 'ended', detail: 'ImagePullBackOff: no such image' }]);
    fleet.now += 60_000;
    fleet.list([{ name, state: 'ended', detail: 'its node has not said that its containers have ended' }]);
    expect(fleet.row(id)).toMatchObject({
      state: 'terminating',
      cause: 'exited',
      detail: 'ImagePullBackOff: no such image',
    });
  });

  it('takes a machine that there was no room for as a launch that found no capacity', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    fleet.list([{ name, state: 'ended', no_capacity: true, detail: 'Unschedulable' }]);
    expect(fleet.row(id)).toMatchObject({ state: 'terminating', cause: 'no_capacity' });
  });

  it('has what nobody wants terminated when it was seen twice, and never a machine of others', () => {
    const fleet = fleetWithSpec();
    const { prefix } = fleet.sync();
    const machines = [
      { name: `${prefix}chat-zzzzzzzzzz`, external_id: 'x-lost' },
      { name: 'wv-other123-chat-zzzzzzzzzz', external_id: 'x-other' },
      { name: 'postgres', external_id: 'x-db' },
    ];
    fleet.list(machines);
    fleet.now += 30_000;
    fleet.list(machines);
    fleet.reconcile();
    expect(fleet.sync().orders).toEqual([]);
    fleet.now += 30_000;
    expect(fleet.list(machines).orders).toMatchObject([{ kind: 'terminate', external_id: 'x-lost' }]);
    fleet.now += 61_000;
    expect(fleet.list(machines).orders).toMatchObject([{ external_id: 'x-lost', order: 2 }]);
    fleet.list([]);
    fleet.now += 61_000;
    expect(fleet.sync().orders).toEqual([]);
  });

  it('has the second of two machines of one name terminated', () => {
    const fleet = fleetWithSpec();
    const { name } = fleet.accepted();
    const machines = [
      { name, external_id: 'x-1' },
      { name, external_id: 'x-2' },
    ];
    fleet.list(machines);
    fleet.now += 60_000;
    fleet.list(machines);
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', external_id: 'x-2' }]);
  });

  it('has the second of two machines of one name terminated that is listed while the first ends', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    fleet.scheduler.control('chat', 'drain', false);
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', external_id: 'x-1', order: 2 }]);
    const second = [{ name, external_id: 'x-2' }];
    fleet.list(second);
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.row(id)).toMatchObject({ state: 'gone', external_id: 'x-1' });
    fleet.now += 60_000;
    fleet.list(second);
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', external_id: 'x-2' }]);
  });

  it('has a machine terminated that turns up after its launch had ended', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.requested();
    fleet.result(id, 1, { kind: 'rejected', detail: 'no money' });
    expect(fleet.row(id).state).toBe('failed');
    fleet.list([{ name, external_id: 'x-5' }]);
    fleet.now += 60_000;
    fleet.list([{ name, external_id: 'x-5' }]);
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', external_id: 'x-5' }]);
    expect(fleet.row(id).state).toBe('failed');
  });

  it('has a machine ended by its id where it was not known when its launch was told to end', () => {
    const fleet = fleetWithSpec();
    const { id } = fleet.requested();
    fleet.scheduler.control('chat', 'drain', false);
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', order: 2, external_id: null }]);
    fleet.result(id, 1, { kind: 'launched', external_id: 'x-9', price_per_hour: 3 });
    // The list in which the launcher looked for the name lags behind.
    const { orders } = fleet.result(id, 2, { kind: 'terminated' });
    expect(orders).toMatchObject([{ kind: 'terminate', launch_id: id, order: 3, external_id: 'x-9' }]);
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.row(id).state).toBe('terminating');
    fleet.result(id, 3, { kind: 'terminated' });
    expect(fleet.row(id).state).toBe('gone');
  });

  it('ends a launch of which no machine became known once a launcher finds none by its name', () => {
    const fleet = fleetWithSpec();
    const { id } = fleet.requested();
    fleet.scheduler.control('chat', 'drain', false);
    fleet.reconcile();
    fleet.sync();
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.row(id).state).toBe('gone');
  });

  it('keeps a launch that is told to end until its machine is gone, and asks for that every 5 s', () => {
    const fleet = fleetWithSpec();
    fleet.apply({ max: 1 });
    const { id, name } = fleet.accepted();
    fleet.scheduler.control('chat', 'drain', false);
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', order: 2 }]);
    fleet.scheduler.control('chat', 'resume', false);
    fleet.waiting = 3;
    for (let order = 2; order < 12; order++) {
      fleet.result(id, order, { kind: 'terminating' });
      fleet.reconcile(4);
      expect(fleet.list([{ name }]).orders).toEqual([]);
      fleet.reconcile(1);
      expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', launch_id: id, order: order + 1 }]);
      expect(fleet.rows()).toMatchObject([{ id, state: 'terminating' }]);
    }
    expect(fleet.scheduler.scaling()?.pools.get('chat')?.decision?.text).toMatch(
      /Places are free once 1 worker that ends is gone\.$/,
    );
    fleet.result(id, 12, { kind: 'terminated' });
    expect(fleet.row(id).state).toBe('gone');
    fleet.reconcile();
    expect(fleet.rows().filter(({ state }) => state !== 'gone')).toMatchObject([{ state: 'intended' }]);
  });

  it('of a launcher’s own machine needs no minute', () => {
    const fleet = fleetWithSpec('process');
    const { id } = fleet.ready();
    fleet.sessions = [];
    fleet.now += 1000;
    fleet.list([]);
    expect(fleet.row(id).state).toBe('ready');
    fleet.now += 5000;
    fleet.list([]);
    expect(fleet.row(id)).toMatchObject({ state: 'failed', cause: 'lost' });
  });

  it('of one machine says nothing of the processes of another', () => {
    const fleet = fleetWithSpec('process');
    const { id } = fleet.accepted();
    for (let n = 0; n < 5; n++) {
      fleet.now += 60_000;
      fleet.list([], 0, { host: 'm-2' });
    }
    expect(fleet.row(id).state).toBe('accepted');
  });
});

describe('what a fleet costs', () => {
  it('is counted by the times of the provider, also of what has ended', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    const started_at = fleet.now;
    fleet.list([{ name, started_at }]);
    fleet.now += 1_800_000;
    fleet.list([{ name, started_at, state: 'ended', ended_at: started_at + 900_000, exit_code: 0 }]);
    fleet.now += 3_600_000;
    const cost = () => fleet.scheduler.launches().find((row) => row.id === id)?.cost;
    expect(cost()).toBe(0.5);
    fleet.reconcile();
    fleet.sync();
    fleet.result(id, 2, { kind: 'terminated' });
    expect(cost()).toBe(0.5);
    expect(fleet.scheduler.scaling()?.summary).toMatchObject({ spent_today: 0.5, price_per_hour: 0 });
  });

  it('goes on until the machine is gone where its provider does not tell when its container ended', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.accepted();
    const started_at = fleet.now;
    fleet.list([{ name, started_at, price_per_hour: 2 }]);
    fleet.now += 1_800_000;
    fleet.list([{ name, started_at, state: 'ended', price_per_hour: 0 }]);
    fleet.now += 900_000;
    expect(fleet.scheduler.scaling()?.summary.spent_today).toBeCloseTo(1.5, 2);
    fleet.reconcile();
    fleet.sync();
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.scheduler.scaling()?.summary.spent_today).toBeCloseTo(1.5, 2);
  });

  it('goes on where a provider starts a container that had ended anew', () => {
    const fleet = fleetWithSpec();
    const { name } = fleet.accepted();
    const started_at = fleet.now;
    fleet.list([{ name, started_at, price_per_hour: 2 }]);
    fleet.now += 900_000;
    fleet.list([{ name, started_at, state: 'ended', ended_at: fleet.now, exit_code: 0 }]);
    fleet.now += 900_000;
    fleet.list([{ name, started_at: fleet.now - 600_000, price_per_hour: 2 }]);
    expect(fleet.scheduler.scaling()?.summary.spent_today).toBeCloseTo(1, 2);
  });

  it('is booked on the days on which it was used', () => {
    const fleet = fleetWithSpec();
    fleet.now = Date.UTC(2026, 0, 5, 23);
    const { name } = fleet.accepted();
    fleet.list([{ name, started_at: fleet.now }]);
    fleet.now = Date.UTC(2026, 0, 6, 2);
    expect(fleet.scheduler.scaling()?.summary.spent_today).toBe(4);
    const [first, second] = [Date.UTC(2026, 0, 5), Date.UTC(2026, 0, 6)];
    expect(fleet.scheduler.spentByDay(first)).toEqual([
      { day: first / 1000, config_id: 'chat', dollars: expect.closeTo(2, 2) },
      { day: second / 1000, config_id: 'chat', dollars: 4 },
    ]);
    expect(fleet.scheduler.spentByDay(second + 60_000)).toHaveLength(1);
  });

  it('is known for as long as usage, so that a bill can be made after its month', () => {
    const fleet = fleetWithSpec();
    const first = Date.UTC(2026, 0, 5);
    for (const at of [first, first + 60 * 86_400_000]) {
      fleet.now = at;
      const { name } = fleet.accepted();
      fleet.now += 3_600_000;
      fleet.list([{ name, started_at: at, state: 'ended', ended_at: fleet.now, exit_code: 0 }]);
      for (let list = 0; list < 2; list += 1) {
        fleet.now += 60_000;
        fleet.list([]);
      }
    }
    const days = fleet.scheduler.spentByDay(first).map(({ day }) => day);
    expect(days).toEqual([first / 1000, first / 1000 + 60 * 86_400]);
  });
});

describe('a spec', () => {
  it('that is taken back drains and terminates all it launched, at providers that it no longer names', () => {
    const fleet = fleetWithSpec();
    const { id, name } = fleet.ready();
    expect(fleet.scheduler.specs.remove(true)?.changes).toContain(
      'pool chat is gone: its worker is drained and terminated',
    );
    expect(fleet.row(id).state).toBe('ready');
    fleet.scheduler.specs.remove(false);
    fleet.reconcile();
    fleet.list([{ name, external_id: 'x-1' }]);
    for (let n = 0; n < 3; n++) fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'terminate', launch_id: id }]);
    fleet.sessions = [];
    fleet.result(id, 2, { kind: 'terminated' });
    expect(fleet.row(id).state).toBe('gone');
    expect(fleet.sync().providers).toEqual([]);
    expect(fleet.scheduler.nextReconcile()).toBeNull();
  });

  it('that starts a pool otherwise ends what is starting, and lets serve what serves', () => {
    const fleet = fleetWithSpec();
    const { id } = fleet.ready();
    fleet.apply({ max: 2 });
    fleet.apply({ max: 2, model: 'other' });
    expect(fleet.row(id).state).toBe('ready');
    const another = fleetWithSpec();
    const starting = another.accepted();
    another.apply({ max: 2, model: 'other' });
    another.list([{ name: starting.name }]);
    another.reconcile();
    expect(another.row(starting.id).state).toBe('terminating');
  });
});

describe('an operator', () => {
  it('pauses a pool, and nothing is launched for it', () => {
    const fleet = fleetWithSpec();
    fleet.list([]);
    fleet.scheduler.control('chat', 'pause', false);
    fleet.waiting = 5;
    for (let n = 0; n < 5; n++) fleet.reconcile();
    expect(fleet.rows()).toEqual([]);
    fleet.scheduler.control('chat', 'resume', false);
    fleet.reconcile();
    expect(fleet.rows()).not.toEqual([]);
  });

  it('has one worker more launched, or is told why not', () => {
    const fleet = fleetWithSpec();
    fleet.list([]);
    expect(fleet.scheduler.control('chat', 'launch', true)).toMatchObject({ ok: true });
    fleet.reconcile();
    expect(fleet.rows()).toEqual([]);
    fleet.scheduler.control('chat', 'launch', false);
    fleet.reconcile();
    expect(fleet.rows()).toHaveLength(1);
    fleet.apply({ max: 1 });
    expect(fleet.scheduler.control('chat', 'launch', false)).toMatchObject({ ok: false, reason: 'refused' });
    expect(fleet.scheduler.control('nope', 'launch', false)).toMatchObject({ reason: 'unknown_pool' });
  });

  it('is told what was decided last, and not each number that has moved since', () => {
    const fleet = fleetWithSpec();
    fleet.list([]);
    const told = () => fleet.scheduler.scaling()?.pools.get('chat')?.decision;
    fleet.waiting = 2;
    fleet.reconcile();
    const decided = told();
    expect(decided).toMatchObject({
      at: fleet.now,
      text: expect.stringMatching(/2 wait\. 1 worker launched\.$/),
    });
    fleet.waiting = 3;
    fleet.reconcile();
    expect(told()).toEqual(decided);
    fleet.scheduler.control('chat', 'pause', false);
    fleet.reconcile();
    expect(told()).toMatchObject({ at: fleet.now, text: expect.stringContaining('paused') });
  });
});
