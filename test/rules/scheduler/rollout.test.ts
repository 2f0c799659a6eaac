import { beforeEach, describe, expect, it } from 'vitest';
import { RollingPool } from '../../support/rolling-pool.ts';

/** What becomes of the workers of a pool whose settings are changed while they serve. */
let pool: RollingPool;
beforeEach(() => {
  pool = new RollingPool();
});

describe('a pool that is changed', () => {
  it('has its workers replaced one by one, each once a new one has proved itself', () => {
    pool.serving(2);
    pool.apply({ image: 'b' });
    pool.pass(10);
    // The first new one has answered its real token, and is watched.
    expect(pool.images()).toBe('aab');
    expect(pool.text).toMatch(
      /^2 of 3 workers have another version than [0-9a-f]{10}\. The new one is watched/,
    );
    pool.pass(200, () => pool.images() === 'bb' && pool.alive().length === 2);
    expect(pool.images()).toBe('bb');
    expect([pool.fewest, pool.most]).toEqual([2, 3]);
    expect(pool.shown.rollout).toBeNull();
    expect(pool.shown.versions).toMatchObject([
      { state: 'wanted', what: 'image b', is_proved: true, ready: 2 },
      { state: 'kept', is_proved: true, ready: 0 },
    ]);
  });

  it('has as many replaced side by side as surge says', () => {
    pool.serving(3, { update: { surge: 3 }, max: 6 });
    pool.apply({ image: 'b' });
    pool.pass(8);
    expect(pool.images()).toBe('aaabbb');
    pool.pass(200, () => pool.images() === 'bbb');
    expect([pool.fewest, pool.most]).toEqual([3, 6]);
  });

  it('drains as many first as may be missing', () => {
    pool.serving(3, { update: { surge: 0, unavailable: 1 }, max: 3 });
    pool.apply({ image: 'b' });
    pool.pass(400, () => pool.images() === 'bbb');
    expect(pool.images()).toBe('bbb');
    expect([pool.fewest, pool.most]).toEqual([2, 3]);
  });

  it('keeps those that serve while a new one starts, and says so', () => {
    pool.serving(2);
    pool.fates.set('b', 'never registers');
    pool.apply({ image: 'b' });
    pool.pass(300);
    expect(pool.images()).toBe('aa');
    expect(pool.allImages()).toBe('aab');
    expect(pool.text).toContain('1 new one on the way');
    expect(pool.shown.rollout).toMatchObject({ state: 'rolling', is_stuck: false });
    expect(pool.shown.rollout?.next).toBe(pool.ready()[1]?.name);
  });

  it('is not rolled for what its workers are not started with', () => {
    const before = pool.serving(2);
    pool.apply({ max: 4, keep_warm: '2h', update: { surge: 2 } });
    pool.pass(60);
    expect(pool.alive().map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    expect(pool.shown.rollout).toBeNull();
  });

  it('is rolled where its revision changes, and where an operator says so', () => {
    pool.serving(1);
    pool.apply({ revision: 'a new token' });
    pool.pass(5);
    pool.pass(400, () => pool.shown.rollout === null && pool.alive().length === 1);
    expect(pool.fleet.scheduler.outdated()).toEqual(new Set());
    const [before] = pool.ready();
    pool.fleet.scheduler.roll('chat', { action: 'anew' }, false);
    pool.pass(400, () => pool.ready().length === 1 && pool.ready()[0]?.id !== before?.id);
    expect(pool.fewest).toBe(1);
  });

  it('launches what it was started with before, whatever the newest file says, for more load', () => {
    pool.serving(1);
    pool.fates.set('b', 'never registers');
    pool.apply({ image: 'b' });
    pool.pass(5);
    pool.fleet.waiting = 20;
    pool.pass(5);
    expect(pool.images()).toMatch(/^a{2,}$/);
    expect(pool.allImages().match(/b/g)).toHaveLength(1);
  });

  it('tries the new version where nobody serves, and the old one while that fails', () => {
    pool.serving(1);
    pool.apply({ min: 0 });
    pool.fleet.scheduler.control('chat', 'drain', false);
    pool.pass(10);
    pool.fleet.scheduler.control('chat', 'resume', false);
    expect(pool.alive()).toHaveLength(0);
    pool.fates.set('b', 'ends');
    pool.apply({ image: 'b', min: 1 });
    pool.pass(2);
    expect(pool.allImages()).toBe('b');
    pool.pass(20, () => pool.images() === 'a');
    expect(pool.images()).toBe('a');
  });

  it('starts the old version where nobody serves and the new one is refused', () => {
    const [before] = pool.serving(1);
    pool.fates.set('b', 'refused');
    pool.apply({ image: 'b' });
    pool.dies(before!);
    pool.pass(3);
    expect(pool.ready().map(({ id }) => id)).not.toContain(before!.id);
    pool.pass(60, () => pool.images() === 'a');
    expect(pool.images()).toBe('a');
  });

  it('keeps no more than max where that is lowered meanwhile', () => {
    pool.serving(2);
    pool.fates.set('b', 'never registers');
    pool.apply({ image: 'b' });
    pool.pass(5);
    expect(pool.alive()).toHaveLength(3);
    pool.apply({ max: 2 });
    pool.pass(5);
    expect(pool.allImages()).toBe('aa');
  });

  it('is left as it is while an operator has paused it, or its rollout', () => {
    pool.serving(2);
    pool.fleet.scheduler.control('chat', 'pause', false);
    pool.apply({ image: 'b' });
    pool.pass(200);
    expect(pool.allImages()).toBe('aa');
    pool.fleet.scheduler.control('chat', 'resume', false);
    pool.pass(10);
    expect(pool.images()).toBe('aab');
    pool.fleet.scheduler.roll('chat', { action: 'pause' }, false);
    pool.pass(300);
    expect(pool.images()).toBe('aab');
    expect(pool.shown.rollout).toMatchObject({ state: 'paused' });
    pool.fleet.scheduler.roll('chat', { action: 'resume' }, false);
    pool.pass(300, () => pool.images() === 'bb');
    expect(pool.images()).toBe('bb');
    expect(pool.fewest).toBe(2);
  });

  it('goes on after a restart of the scheduler in every step', () => {
    pool.serving(2);
    pool.apply({ image: 'b' });
    for (let s = 0; s < 300 && pool.images() !== 'bb'; s += 1) {
      pool.fleet.restart();
      pool.pass(1);
    }
    expect(pool.images()).toBe('bb');
    expect([pool.fewest, pool.most]).toEqual([2, 3]);
  });
});

describe('a change back', () => {
  it('keeps what serves, at whatever moment it comes', () => {
    for (let moment = 0; moment < 300; moment += 13) {
      const one = new RollingPool();
      one.serving(3);
      one.apply({ image: 'b' });
      one.pass(moment);
      one.apply({ image: 'a' });
      one.pass(5);
      expect(one.ready().length, `after ${moment} s`).toBeGreaterThanOrEqual(3);
      one.pass(400, () => one.images() === 'aaa' && one.alive().length === 3);
      expect(one.images(), `after ${moment} s`).toBe('aaa');
      expect(one.fewest, `after ${moment} s`).toBe(3);
      expect(one.alive()).toHaveLength(3);
    }
  });

  it('ends a new one at once that serves beside the old ones', () => {
    const before = pool.serving(2);
    pool.apply({ image: 'b' });
    pool.pass(10);
    expect(pool.images()).toBe('aab');
    pool.fleet.scheduler.roll('chat', { action: 'back' }, false);
    pool.pass(5);
    expect(pool.alive().map(({ id }) => id)).toEqual(before.map(({ id }) => id));
  });

  it('is overtaken by a newer file', () => {
    pool.serving(2);
    pool.apply({ image: 'b' });
    pool.pass(10);
    pool.apply({ image: 'c' });
    pool.pass(5);
    expect(pool.allImages()).toBe('aac');
    pool.pass(400, () => pool.images() === 'cc');
    expect([pool.images(), pool.fewest]).toEqual(['cc', 2]);
  });
});

describe('without room beside', () => {
  const FULL = { max: 2, update: { patience: 60 } };

  it('has one go first after its patience, and then one after the other', () => {
    pool.serving(2, FULL);
    pool.apply({ image: 'b' });
    pool.pass(50);
    expect(pool.allImages()).toBe('aa');
    expect(pool.text).toContain(
      'There is no room for a new one beside: max is 2. Unless there is some by 12:0',
    );
    pool.pass(400, () => pool.images() === 'bb');
    expect(pool.images()).toBe('bb');
    expect([pool.fewest, pool.most]).toEqual([1, 2]);
  });

  it('does so where its provider has no machine free', () => {
    pool.serving(2, { update: { patience: 60 } });
    pool.fates.set('b', 'no capacity');
    pool.apply({ image: 'b' });
    pool.pass(50);
    expect(pool.images()).toBe('aa');
    pool.pass(300, () => pool.images() === 'a');
    pool.fates.set('b', 'serves');
    pool.pass(1500, () => pool.images() === 'bb');
    expect(pool.images()).toBe('bb');
    expect(pool.fewest).toBe(1);
  });

  it('has none go first for a version that is not launched yet, after a start that failed', () => {
    pool.serving(2, FULL);
    pool.fates.set('b', 'ends');
    pool.apply({ image: 'b' });
    pool.pass(900, () => pool.shown.rollout?.state === 'stopped');
    pool.pass(60);
    expect(pool.images()).toBe('aa');
    const of = (isFailed: boolean) =>
      pool.fleet.rows().filter(({ cause }) => (cause === 'exited') === isFailed).length;
    // One of before was drained for each try, and was launched again when it had failed.
    expect([of(true), of(false)]).toEqual([5, 2 + 5]);
  });

  it('keeps the only one that serves while there is work, and says what to type', () => {
    const [before] = pool.serving(1, { max: 1, update: { patience: 60 } });
    pool.fleet.running = { [before!.name]: 1 };
    pool.apply({ image: 'b' });
    pool.fleet.waiting = 1;
    pool.pass(200);
    expect(pool.ready()).toMatchObject([{ id: before!.id }]);
    expect(pool.shown.rollout?.text).toMatch(
      /max is 1.*raise max, allow "update: \{unavailable: 1\}".*worker-vllm fleet drain chat/,
    );
    expect(pool.shown.rollout).toMatchObject({ state: 'rolling', is_stuck: true });
    pool.apply({ max: 2 });
    pool.pass(200, () => pool.images() === 'b');
    expect(pool.images()).toBe('b');
    expect(pool.shown.rollout).toBeNull();
    expect(pool.fewest).toBe(1);
  });

  it('replaces the only one once nobody has asked for the pool for as long as its patience', () => {
    const before = pool.serving(1, { max: 1, update: { patience: 60 } });
    pool.apply({ image: 'b' });
    for (let minutes = 0; minutes < 5; minutes += 1) {
      pool.fleet.waiting = 1;
      pool.pass(1);
      pool.fleet.waiting = 0;
      pool.pass(45);
    }
    expect(pool.ready()).toMatchObject([{ id: before[0]!.id }]);
    expect(pool.shown.rollout).toMatchObject({ is_stuck: true });
    expect(pool.text).toContain('it stays until there was no work for 60 s');
    pool.pass(100, () => pool.images() === 'b');
    expect(pool.images()).toBe('b');
    expect(pool.most).toBe(1);
  });
});

describe('a version that fails', () => {
  it.each([
    [9, /exit code 9/, 1],
    [4, /5 starts in a row failed; the last: its worker ended with exit code 4: the last words/, 5],
  ])('to start with exit code %i is stopped, and the old ones stay', (exitCode, why, starts) => {
    const before = pool.serving(2);
    pool.exitCode = exitCode;
    pool.fates.set('b', 'ends');
    pool.apply({ image: 'b' });
    pool.pass(900, () => pool.shown.rollout?.state === 'stopped');
    pool.pass(60);
    expect(pool.alive().map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    expect(pool.fewest).toBe(2);
    expect(pool.shown.rollout).toMatchObject({ state: 'stopped', text: expect.stringMatching(why) });
    expect(pool.shown.versions.map(({ state }) => state)).toEqual(['wanted', 'stopped']);
    expect(pool.fleet.rows().filter(({ cause }) => cause === 'exited')).toHaveLength(starts);
    // Launching itself is not stopped: the breaker is the version's own.
    expect(pool.shown.breaker).toBeNull();
    pool.fleet.waiting = 20;
    pool.pass(10);
    expect(pool.images()).toMatch(/^aaa+$/);
  });

  it('to be launched is stopped, and its refusals hold no launch of the old one back', () => {
    const before = pool.serving(2, { max: 40 });
    pool.fates.set('b', 'refused');
    pool.apply({ image: 'b' });
    pool.pass(5);
    pool.fleet.waiting = 20;
    pool.pass(5);
    expect(pool.images()).toMatch(/^aaa+$/);
    pool.fleet.waiting = 0;
    pool.pass(600, () => pool.shown.rollout?.state === 'stopped');
    expect(pool.shown.rollout?.text).toMatch(/5 starts in a row failed; .*there is no such image/);
    expect(pool.ready().map(({ id }) => id)).toEqual(expect.arrayContaining(before.map(({ id }) => id)));
  });

  it('after it was ready, twice, is stopped, and the old count comes back', () => {
    pool.serving(3);
    pool.apply({ image: 'b' });
    pool.pass(200, () => pool.images().includes('bb'));
    for (let deaths = 0; deaths < 2; deaths += 1) {
      pool.pass(100, () => pool.images().includes('b'));
      const wanted = pool.shown.versions.find(({ state }) => state === 'wanted')!.version;
      const died = pool.ready().find(({ version }) => version === wanted);
      pool.dies(died!);
      pool.pass(3);
    }
    pool.pass(400, () => pool.images() === 'aaa');
    expect(pool.images()).toBe('aaa');
    expect(pool.shown.rollout?.text).toMatch(
      /2 of its \d+ workers that were ready ended by themselves; the last: its worker ended with exit code 4/,
    );
  });

  it('after it was ready is stopped where a tenth of its workers is, and no sooner', () => {
    const update = { surge: 21, canary: { share: 0.5, for: 3600 } };
    pool.serving(42, { max: 70, update });
    pool.apply({ image: 'b' });
    const news = () => pool.ready().filter(({ version }) => version === pool.shown.versions[0]?.version);
    pool.pass(60, () => news().length === 21);
    const [first, second, third] = news();
    pool.dies(first!);
    pool.dies(second!);
    pool.pass(5);
    expect(pool.shown.rollout).toMatchObject({ state: 'rolling' });
    pool.dies(third!);
    pool.pass(5);
    expect(pool.shown.rollout).toMatchObject({
      state: 'stopped',
      text: expect.stringMatching(/3 of its 2\d workers that were ready ended by themselves/),
    });
    pool.pass(300, () => pool.images() === 'a'.repeat(42));
    expect([pool.images(), pool.fewest]).toEqual(['a'.repeat(42), 42]);
  });

  it('to be launched, once it was proved and before it has replaced all, is stopped and needs attention', () => {
    pool.serving(3);
    pool.apply({ image: 'b' });
    pool.pass(200, () => pool.shown.versions[0]?.is_proved === true);
    pool.fates.set('b', 'refused');
    pool.pass(3600, () => pool.shown.rollout?.state === 'stopped');
    expect(pool.shown.rollout?.text).toMatch(/5 starts in a row failed; .*there is no such image/);
    pool.pass(400, () => pool.images() === 'aaa');
    expect([pool.images(), pool.fewest]).toEqual(['aaa', 3]);
  });

  it('to start, though it was proved before and an operator went back to it, is told until somebody decides', () => {
    pool.serving(2);
    pool.apply({ image: 'b' });
    pool.pass(400, () => pool.images() === 'bb' && pool.shown.rollout === null);
    const filed = pool.shown.versions[0]!.version;
    pool.exitCode = 2;
    pool.fates.set('a', 'ends');
    pool.fleet.scheduler.roll('chat', { action: 'back' }, false);
    pool.pass(60, () => pool.shown.rollout?.state === 'stopped');
    pool.pass(60);
    expect(pool.images()).toBe('bb');
    expect(pool.shown.rollout).toMatchObject({
      ...{ state: 'stopped', from: filed },
      text: expect.stringMatching(/was stopped: its worker ended with exit code 2.* The pool keeps /),
    });
    pool.fleet.scheduler.roll('chat', { action: 'to', version: filed }, false);
    expect(pool.shown.rollout).toBeNull();
  });

  it('in its answers is stopped', () => {
    const before = pool.serving(2);
    pool.errors.set('b', 0.5);
    pool.apply({ image: 'b' });
    pool.pass(100, () => pool.shown.rollout?.state === 'stopped');
    pool.pass(5);
    expect(pool.alive().map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    expect(pool.shown.rollout?.text).toMatch(
      /\d+ of \d+ requests at its workers failed, and 0 % at those of the version before/,
    );
  });

  it('no more than the one before is proved', () => {
    pool.errors.set('a', 0.2);
    pool.errors.set('b', 0.2);
    pool.serving(2);
    pool.apply({ image: 'b' });
    pool.pass(400, () => pool.images() === 'bb');
    expect(pool.images()).toBe('bb');
  });

  it('is tried again where the file says it again after another, or an operator says it', () => {
    pool.serving(1);
    pool.exitCode = 9;
    pool.fates.set('b', 'ends');
    pool.apply({ image: 'b' });
    pool.pass(60, () => pool.shown.rollout?.state === 'stopped');
    const version = pool.shown.rollout!.to;
    pool.apply({ image: 'b' });
    expect(pool.shown.rollout?.state).toBe('stopped');
    pool.fates.set('b', 'serves');
    pool.fleet.scheduler.roll('chat', { action: 'to', version }, false);
    pool.pass(300, () => pool.images() === 'b');
    expect(pool.images()).toBe('b');
    expect(pool.shown.rollout).toBeNull();
  });

  it('is tried again without the errors of the time before', () => {
    pool.serving(2);
    pool.errors.set('b', 0.5);
    pool.apply({ image: 'b' });
    pool.pass(100, () => pool.shown.rollout?.state === 'stopped');
    const version = pool.shown.rollout!.to;
    pool.pass(60);
    expect(pool.allImages()).toBe('aa');
    pool.errors.set('b', 0);
    pool.fleet.scheduler.roll('chat', { action: 'to', version }, false);
    pool.pass(5);
    expect(pool.shown.rollout).toMatchObject({ state: 'rolling' });
    pool.pass(400, () => pool.images() === 'bb');
    expect([pool.images(), pool.fewest]).toEqual(['bb', 2]);
  });

  it('with nothing to go back to keeps the pool from launching, as any failed start does', () => {
    pool.exitCode = 9;
    pool.fates.set('b', 'ends');
    pool.apply({ image: 'b', min: 1 });
    pool.pass(30);
    expect(pool.alive()).toEqual([]);
    expect(pool.text).toMatch(/Launching is stopped until it is resumed: .*exit code 9/);
    expect(pool.shown.breaker).not.toBeNull();
  });
});

describe('a canary', () => {
  const CANARY = { update: { surge: 3, canary: { share: 0.25, for: 300 } }, max: 8 };

  it('is no more than its part of the workers, for its time', () => {
    pool.serving(4, CANARY);
    pool.apply({ image: 'b' });
    pool.pass(280);
    expect(pool.images()).toBe('aaaab');
    expect(pool.text).toContain('takes 25 % of the requests for 5 min');
    pool.pass(300, () => pool.images() === 'bbbb');
    expect(pool.images()).toBe('bbbb');
    expect(pool.fewest).toBe(4);
  });
});
