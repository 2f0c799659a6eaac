import { describe, expect, it } from 'vitest';
import type { Alias, AliasTable } from '../../../src/aliases/alias.ts';
import { causesAfter, nextStep, startingLimit, stepsOf, targetsOf } from '../../../src/aliases/resolve.ts';

const alias = (to: Record<string, number>, more: Partial<Alias> = {}): Alias => ({
  split: { by: 'session' },
  to: Object.entries(to).map(([model, weight]) => ({ model, weight })),
  then: [],
  on: [],
  ...more,
});

const chosen = (table: AliasTable, key: string) => stepsOf(table, 'a', key)[0]!.model;
const models = (table: AliasTable, key = 'k') => stepsOf(table, 'a', key).map(({ model }) => model);

const KEYS = 1_000_000;

describe('the shares of an alias', () => {
  it('are within 0.2 % of its weights over a million keys', () => {
    const table = { a: alias({ one: 6, two: 3, three: 1, none: 0 }) };
    const counts = new Map<string, number>();
    for (let key = 0; key < KEYS; key++) {
      const model = chosen(table, `session-${key}`);
      counts.set(model, (counts.get(model) ?? 0) + 1);
    }
    for (const [model, share] of [
      ['one', 0.6],
      ['two', 0.3],
      ['three', 0.1],
    ] as const)
      expect(Math.abs(counts.get(model)! / KEYS - share)).toBeLessThan(0.002);
    expect(counts.has('none')).toBe(false);
  });

  it('move no more keys than a change of the weights has to, and none the other way', () => {
    const [before, after] = [{ a: alias({ old: 9, new: 1 }) }, { a: alias({ old: 8, new: 2 }) }];
    let moved = 0;
    for (let key = 0; key < KEYS; key++) {
      const [from, to] = [chosen(before, `${key}`), chosen(after, `${key}`)];
      if (from === to) continue;
      moved += 1;
      expect([from, to]).toEqual(['old', 'new']);
    }
    expect(moved / KEYS).toBeLessThan(0.1 + 0.01);
    expect(moved / KEYS).toBeGreaterThan(0.1 - 0.01);
  });

  it('are chosen anew by each alias: the same sessions are not the canaries of all', () => {
    const table = { a: alias({ old: 9, new: 1 }), b: alias({ old: 9, new: 1 }) };
    let both = 0;
    for (let key = 0; key < 10_000; key++) {
      const isNew = (name: string) => stepsOf(table, name, `${key}`)[0]!.model === 'new';
      if (isNew('a') && isNew('b')) both += 1;
    }
    expect(both).toBeLessThan(200);
  });
});

describe('the steps of an alias', () => {
  it('are its choice, then its fall-backs in the order in which they are written', () => {
    const table = { a: alias({ one: 1, two: 1 }, { then: ['three', { external: 'far' }], on: ['failed'] }) };
    const steps = stepsOf(table, 'a', 'k');
    expect(steps.map(({ model }) => model)).toEqual([expect.stringMatching(/one|two/), 'three', 'far']);
    expect(steps.map(({ external }) => external)).toEqual([false, false, true]);
    expect(nextStep(steps, 0, 'failed')).toBe(1);
    expect(nextStep(steps, 1, 'failed')).toBe(2);
    expect(nextStep(steps, 2, 'failed')).toBeNull();
    expect(nextStep(steps, 0, 'no_worker')).toBeNull();
  });

  it('share the requests of a target without a worker only where the alias says so', () => {
    const to = { one: 1, two: 1 };
    expect(models({ a: alias(to) })).toHaveLength(1);
    const steps = stepsOf({ a: alias(to, { on: ['no_worker'] }) }, 'a', 'k');
    expect(steps.map(({ model }) => model).sort()).toEqual(['one', 'two']);
    expect(causesAfter(steps, 0)).toEqual(['no_worker']);
  });

  it('of an alias within an alias keep their own fall-backs, for requests that are there', () => {
    const table = {
      a: alias({ big: 1 }, { then: ['b'], on: ['failed'] }),
      b: alias({ small: 1 }, { then: ['tiny'], on: ['no_worker'] }),
    };
    const steps = stepsOf(table, 'a', 'k');
    expect(steps.map(({ model }) => model)).toEqual(['big', 'small', 'tiny']);
    expect(nextStep(steps, 0, 'failed')).toBe(1);
    expect(nextStep(steps, 1, 'no_worker')).toBe(2);
    // What `b` says of its own fall-back does not hold for `big`.
    expect(nextStep(steps, 0, 'no_worker')).toBeNull();
    const outer = stepsOf(
      { ...table, a: alias({ b: 1 }, { then: ['last'], on: ['no_worker', 'failed'] }) },
      'a',
      'k',
    );
    expect(outer.map(({ model }) => model)).toEqual(['small', 'tiny', 'last']);
    expect(nextStep(outer, 0, 'no_worker')).toBe(1);
    expect(nextStep(outer, 1, 'no_worker')).toBe(2);
    expect(nextStep(outer, 0, 'failed')).toBe(2);
  });

  it('say how long a start may take', () => {
    const steps = stepsOf({ a: alias({ one: 1 }, { then: ['two'], on: [{ starting_over: 30 }] }) }, 'a', 'k');
    expect(startingLimit(steps, 0)).toBe(30_000);
    expect(causesAfter(steps, 0)).toEqual(['starting_over']);
    expect(startingLimit(steps, 1)).toBeNull();
  });

  it('never lead back to a model that was tried', () => {
    const table = { a: alias({ one: 1, b: 1 }, { then: ['two'], on: ['no_worker'] }), b: alias({ one: 1 }) };
    const steps = stepsOf(table, 'a', 'k');
    const tried = [0];
    for (let at = nextStep(steps, 0, 'no_worker'); at !== null; at = nextStep(steps, at, 'no_worker'))
      tried.push(at);
    expect(tried.map((at) => steps[at]!.model)).toEqual(['one', 'two']);
  });

  it('end, even where two sources of aliases make a circle', () => {
    const table = { a: alias({ b: 1 }), b: alias({ a: 1 }) };
    expect(models(table)).toHaveLength(1);
    expect(targetsOf(table, 'a')).toHaveLength(1);
  });

  it('are the name itself where it is no alias', () => {
    expect(stepsOf({}, 'tiny', 'k')).toEqual([{ model: 'tiny', external: false, on: [], since: 0 }]);
    expect(stepsOf({}, 'constructor', 'k')).toHaveLength(1);
  });
});
