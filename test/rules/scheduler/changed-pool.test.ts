import { beforeEach, describe, expect, it } from 'vitest';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

/** What becomes of the workers of a pool whose settings are changed while they serve. */
let fleet: SchedulerHarness;
beforeEach(() => {
  fleet = new SchedulerHarness();
});

const OTHER = { slots: 1, model: 'other', scale_down_after: '1h', keep_warm: '1h' };
const alive = () =>
  fleet.rows().filter(({ state, is_orphan }) => !is_orphan && state !== 'gone' && state !== 'failed');
const inState = (state: string) => alive().filter((row) => row.state === state);
const text = () => fleet.scheduler.scaling()?.pools.get('chat')?.decision?.text ?? '';

/** The launcher obeys, and lists what there is; workers connect unless their launch is held up. */
function pass(seconds: number, { connects = true } = {}): void {
  for (let s = 0; s < seconds; s += 1) {
    for (const { kind, launch_id, order, name } of fleet.list(listed()).orders) {
      if (kind === 'terminate') {
        fleet.result(launch_id, order, { kind: 'terminated' });
        fleet.sessions = fleet.sessions.filter(({ worker_id }) => worker_id !== name);
        continue;
      }
      fleet.result(launch_id, order, { kind: 'launched', external_id: name, price_per_hour: 2 });
      if (connects) fleet.session(name, { capacity: 1 });
    }
    fleet.reconcile();
  }
}
const listed = () =>
  alive()
    .filter(({ external_id }) => external_id !== null)
    .map(({ name }) => ({ name, external_id: name }));

/** A pool with so many workers that serve. */
function serving(count: number, pool: object): string[] {
  fleet.apply({ ...OTHER, model: 'tiny', min: count, ...pool });
  pass(10);
  expect(inState('ready')).toHaveLength(count);
  return inState('ready').map(({ id }) => id);
}

describe('a pool that is changed', () => {
  it('has its workers replaced one by one, each once another one takes jobs', () => {
    const before = serving(2, {});
    fleet.apply({ ...OTHER, min: 2 });
    let fewest = 2;
    let most = 2;
    for (let s = 0; s < 40; s += 1) {
      pass(1);
      fewest = Math.min(fewest, inState('ready').length);
      most = Math.max(most, alive().length);
    }
    expect([fewest, most]).toEqual([2, 3]);
    expect(inState('ready').map(({ id }) => id)).not.toEqual(expect.arrayContaining([before[0]]));
    expect(inState('ready').map(({ id }) => id)).not.toEqual(expect.arrayContaining([before[1]]));
    expect(alive()).toHaveLength(2);
  });

  it('keeps those that serve while a new one starts, and says so', () => {
    serving(2, {});
    fleet.apply({ ...OTHER, min: 2 });
    pass(30, { connects: false });
    expect(inState('ready')).toHaveLength(2);
    expect(alive()).toHaveLength(3);
    expect(text()).toContain('2 of 2 workers have the settings from before the change');
    expect(text()).toContain('Another one starts in the place of one');
  });

  it('keeps them where a new one cannot start, launches no more, and says why', () => {
    serving(2, {});
    fleet.apply({ ...OTHER, min: 2 });
    pass(5, { connects: false });
    const name = alive().find(({ state }) => state !== 'ready')?.name;
    const serve = listed().filter((one) => one.name !== name);
    const ended = { name, external_id: name, state: 'ended' as const, exit_code: 2 };
    for (let s = 0; s < 20; s += 1) {
      for (const { kind, launch_id, order } of fleet.list([...serve, ended]).orders)
        if (kind === 'terminate') fleet.result(launch_id, order, { kind: 'terminated' });
      fleet.reconcile();
    }
    pass(30);
    expect(inState('ready')).toHaveLength(2);
    expect(alive()).toHaveLength(2);
    expect(text()).toMatch(/Launching is stopped until it is resumed: .*exit code 2/);
    expect(fleet.scheduler.scaling()?.pools.get('chat')?.breaker).not.toBeNull();
  });

  it('has one of several go first where max leaves no room', () => {
    serving(2, { max: 2 });
    fleet.apply({ ...OTHER, min: 2, max: 2 });
    let fewest = 2;
    for (let s = 0; s < 60; s += 1) {
      pass(1);
      fewest = Math.min(fewest, inState('ready').length);
      expect(alive().length).toBeLessThanOrEqual(2);
    }
    expect(fewest).toBe(1);
    expect(inState('ready')).toHaveLength(2);
    expect(fleet.scheduler.outdated()).toEqual(new Set());
  });

  it('keeps the only one that serves where max leaves no room, and says what to do', () => {
    const before = serving(1, { max: 1 });
    fleet.apply({ ...OTHER, min: 1, max: 1 });
    pass(60);
    expect(inState('ready').map(({ id }) => id)).toEqual(before);
    expect(text()).toMatch(/max is 1.*worker-vllm fleet drain chat/);
    const stuck = () => fleet.scheduler.scaling()?.pools.get('chat')?.rollout;
    expect(stuck()).toMatchObject({ state: 'rolling', is_stuck: true });
    fleet.apply({ ...OTHER, min: 1, max: 2 });
    pass(20);
    expect(inState('ready')).toHaveLength(1);
    expect(fleet.scheduler.outdated()).toEqual(new Set());
    expect(stuck()).toBeNull();
  });

  it('keeps no more than max where that is lowered meanwhile', () => {
    serving(2, {});
    fleet.apply({ ...OTHER, min: 2 });
    pass(5, { connects: false });
    expect(alive()).toHaveLength(3);
    fleet.apply({ ...OTHER, min: 2, max: 2 });
    pass(30);
    expect(alive()).toHaveLength(2);
    expect(fleet.scheduler.outdated()).toEqual(new Set());
  });

  it('is left as it is while an operator has paused it', () => {
    serving(2, {});
    fleet.scheduler.control('chat', 'pause', false);
    fleet.apply({ ...OTHER, min: 2 });
    pass(30);
    expect(alive()).toHaveLength(2);
    expect(fleet.scheduler.outdated().size).toBe(2);
    fleet.scheduler.control('chat', 'resume', false);
    pass(30);
    expect(fleet.scheduler.outdated()).toEqual(new Set());
  });

  it('goes on after a restart of the scheduler', () => {
    serving(2, {});
    fleet.apply({ ...OTHER, min: 2 });
    for (let s = 0; s < 40; s += 1) {
      fleet.restart();
      pass(1);
      expect(inState('ready').length).toBeGreaterThanOrEqual(2);
    }
    expect(fleet.scheduler.outdated()).toEqual(new Set());
    expect(alive()).toHaveLength(2);
  });
});
