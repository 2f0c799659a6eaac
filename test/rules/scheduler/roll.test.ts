import { beforeEach, describe, expect, it } from 'vitest';
import { workerName } from '../../../src/protocol/index.ts';
import { startedWith, versionOf } from '../../../src/scheduler/version.ts';
import { SchedulerHarness } from '../../support/scheduler-harness.ts';

/** What an operator says about the versions of a pool. */
let fleet: SchedulerHarness;
beforeEach(() => {
  fleet = new SchedulerHarness();
});

const roll = (request: Parameters<typeof fleet.scheduler.roll>[1], dryRun = false) =>
  fleet.scheduler.roll('chat', request, dryRun);
const pool = () => fleet.scheduler.scaling()?.pools.get('chat');
const wanted = () => pool()?.versions.find(({ state }) => state === 'wanted')?.version;

describe('an order to roll a pool', () => {
  it('names the pools there are, and the versions that are kept', () => {
    fleet.apply();
    expect(fleet.scheduler.roll('chatt', { action: 'anew' }, false)).toMatchObject({
      reason: 'unknown_pool',
      message: 'The fleet has no pool "chatt", only chat.',
    });
    expect(roll({ action: 'to', version: 'gone' })).toMatchObject({
      reason: 'unknown_version',
      message: `chat: version gone is not kept, only ${wanted()}.`,
    });
    expect(roll({ action: 'back' })).toMatchObject({ reason: 'unknown_version' });
  });

  it('starts the same anew, which another application of the file does not undo', () => {
    fleet.apply();
    const before = wanted();
    expect(roll({ action: 'anew' }, true)).toMatchObject({ ok: true });
    expect(wanted()).toBe(before);
    expect(roll({ action: 'anew' })).toMatchObject({ ok: true });
    const after = wanted();
    expect(after).not.toBe(before);
    fleet.apply();
    fleet.restart();
    expect(wanted()).toBe(after);
    expect(pool()?.versions.map(({ version, what }) => [version, what])).toEqual([
      [after, 'the same, started anew'],
      [before, 'tiny'],
    ]);
  });

  it('starts anew what is wanted, also where that is not what the file says', () => {
    fleet.apply({ image: 'a' });
    const before = wanted()!;
    fleet.apply({ image: 'b' });
    roll({ action: 'to', version: before });
    for (let times = 0; times < 2; times += 1) {
      const last = wanted();
      const answer = roll({ action: 'anew' });
      expect('text' in answer && answer.text).toContain('the same, started anew');
      expect(wanted()).not.toBe(last);
      expect(pool()?.versions.find(({ state }) => state === 'wanted')?.what).toBe('the same, started anew');
      fleet.apply({ image: 'b' });
    }
    fleet.list([]);
    fleet.waiting = 1;
    fleet.reconcile();
    expect(fleet.sync().orders).toMatchObject([{ kind: 'launch', version: wanted(), pool: { image: 'a' } }]);
  });

  it('goes to a version of before, whose workers get what it was started with', () => {
    fleet.apply({ image: 'a' });
    const before = wanted()!;
    fleet.apply({ image: 'b' });
    const answer = roll({ action: 'to', version: before });
    expect(answer).toMatchObject({ ok: true, wanted: before });
    expect('text' in answer && answer.text).toContain('image a');
    fleet.list([]);
    fleet.waiting = 1;
    fleet.reconcile();
    const [order] = fleet.sync().orders;
    expect(order).toMatchObject({ kind: 'launch', version: before, pool: { image: 'a' } });
    // The file that is in force says the other one, and says it again.
    fleet.apply({ image: 'b' });
    expect(wanted()).toBe(before);
    fleet.apply({ image: 'c' });
    expect(wanted()).not.toBe(before);
  });

  it('says what is replaced in which order, how long that takes, and what it costs meanwhile', () => {
    fleet.apply({ max: 2 });
    const { name } = fleet.ready();
    const text = (answer: ReturnType<typeof roll>) => ('text' in answer ? answer.text : '');
    const order = `In this order: ${workerName(name)}`;
    expect(text(roll({ action: 'anew' }, true))).toMatch(
      new RegExp(
        `${order}; 1 new beside the old ones first; about \\d+ min, for \\$\\d+\\.\\d\\d an hour more`,
      ),
    );
    const short = Number(/about (\d+) min/.exec(text(roll({ action: 'anew' }, true)))![1]);
    fleet.apply({ max: 1 });
    const full = text(roll({ action: 'anew' }, true));
    expect(full).toContain(
      `${order}; no room beside the old ones, so one of them first, once there was none for 10 min`,
    );
    expect(Number(/about (\d+) min/.exec(full)![1])).toBe(short + 10);
    expect(full).not.toContain('an hour more');
  });

  it('says that a pool that is paused replaces nobody until it is resumed', () => {
    fleet.apply();
    fleet.ready();
    fleet.scheduler.control('chat', 'pause', false);
    const answer = roll({ action: 'anew' }, true);
    const text = 'text' in answer ? answer.text : '';
    expect(text).toMatch(
      /The pool is paused: nothing is launched until it is resumed \(worker-vllm fleet resume chat\)\.$/,
    );
    expect(text).not.toContain('In this order');
  });

  it('has replaced nobody in the end where the file is put back after it', () => {
    fleet.apply({ image: 'a' });
    fleet.ready();
    const before = wanted()!;
    expect(fleet.apply({ image: 'b' })).toMatchObject({ changes: [expect.stringContaining('is replaced')] });
    roll({ action: 'to', version: before });
    expect(fleet.apply({ image: 'a' })).toMatchObject({ changes: [expect.not.stringContaining('replaced')] });
  });

  it('says that rollouts are paused, and since when, also where none is under way', () => {
    fleet.apply({ image: 'a' });
    fleet.ready();
    expect(pool()?.rollout).toBeNull();
    const answer = roll({ action: 'pause' });
    expect('text' in answer && answer.text).toContain(
      'a change of the file replaces none until it is resumed',
    );
    const since = fleet.now;
    fleet.reconcile(60);
    roll({ action: 'pause' });
    const text = 'A change of the pool replaces no worker until an operator resumes its rollouts.';
    expect(pool()?.rollout).toMatchObject({ state: 'paused', since, text });
    fleet.apply({ image: 'b' });
    fleet.reconcile(5);
    expect(pool()?.rollout).toMatchObject({ state: 'paused', since, to: wanted() });
    fleet.restart();
    expect(pool()?.rollout).toMatchObject({ state: 'paused', since });
    fleet.apply({ image: 'a' });
    roll({ action: 'resume' });
    expect(pool()?.rollout).toBeNull();
  });

  it('keeps three versions', () => {
    for (const image of ['a', 'b', 'c', 'd']) fleet.apply({ image });
    expect(pool()?.versions.map(({ what }) => what)).toEqual(['image d', 'image c', 'tiny, image b']);
  });
});

describe('what a scheduler without versions has written', () => {
  it('has the version of the file where its launch was the newest, and else none', () => {
    fleet.apply();
    const launch = fleet.ready();
    const version = wanted();
    const old = ({ version, ...row }: typeof launch, revision: number) =>
      JSON.stringify({ ...row, revision, id: `${row.id}${revision}` });
    const put = fleet.database.prepare(`INSERT INTO launches (id, launch) VALUES (?, ?)`);
    put.run(`${launch.id}1`, old(launch, 1));
    put.run(`${launch.id}2`, old(launch, 2));
    fleet.database.exec(`DELETE FROM scheduler WHERE name = 'versions'`);
    const control = { control: 'automatic', forgiven_at: null, at_least: null, revision: 2 };
    fleet.database
      .prepare(`INSERT INTO scheduler (name, value) VALUES ('controls', ?)`)
      .run(JSON.stringify({ chat: control }));
    // Nor did it know how a pool is updated.
    const { spec, applied_at } = fleet.scheduler.specs.current()!;
    const { update, ...chat } = spec.pools.chat!;
    fleet.database
      .prepare(`UPDATE scheduler SET value = ? WHERE name = 'spec'`)
      .run(JSON.stringify({ spec: { ...spec, pools: { chat } }, applied_at }));
    fleet.restart();
    expect(fleet.scheduler.shares()).toEqual([]);
    fleet.reconcile();
    expect(fleet.row(`${launch.id}1`).version).toBeNull();
    expect(fleet.row(`${launch.id}2`).version).toBe(version);
    expect(pool()?.versions).toMatchObject([{ version, is_proved: true }]);
    expect(versionOf(startedWith(fleet.scheduler.specs.current()!.spec.pools.chat!))).toBe(version);
  });

  it('is no start to wait for where nobody knows any more what it is started with', () => {
    fleet.apply({ min: 2, max: 3 });
    const { version, ...launch } = fleet.ready();
    fleet.database.exec(`DELETE FROM launches`);
    const put = fleet.database.prepare(`INSERT INTO launches (id, launch) VALUES (?, ?)`);
    put.run(launch.id, JSON.stringify({ ...launch, revision: 2 }));
    const intended = {
      ...launch,
      id: 'old',
      name: `${launch.name}-old`,
      state: 'intended',
      external_id: null,
    };
    put.run('old', JSON.stringify({ ...intended, ready_at: null, registered_at: null, revision: 1 }));
    fleet.database.exec(`DELETE FROM scheduler WHERE name = 'versions'`);
    const control = { control: 'automatic', forgiven_at: null, at_least: null, revision: 2 };
    fleet.database
      .prepare(`INSERT INTO scheduler (name, value) VALUES ('controls', ?)`)
      .run(JSON.stringify({ chat: control }));
    fleet.restart();
    fleet.session(launch.name);
    for (let s = 0; s < 20; s += 1) {
      fleet.list([{ name: launch.name, external_id: launch.external_id! }]);
      fleet.reconcile();
    }
    expect(fleet.row('old').state).toBe('gone');
    expect(fleet.rows().filter(({ state }) => state !== 'gone')).toMatchObject([
      { id: launch.id, state: 'ready', version },
      { state: 'requested', version },
    ]);
  });
});

it('a version that is not proved is tried on a share of the requests, where the file says so', () => {
  fleet.apply({ image: 'a' });
  expect(fleet.scheduler.shares()).toEqual([]);
  const canary = { share: 0.1, for: 600 };
  fleet.apply({ image: 'b', update: { surge: 1, unavailable: 0, patience: 600, canary } });
  expect(fleet.scheduler.shares()).toEqual([{ config_id: 'chat', version: wanted(), share: 0.1 }]);
  fleet.apply({ image: 'b' });
  expect(fleet.scheduler.shares()).toEqual([]);
});
