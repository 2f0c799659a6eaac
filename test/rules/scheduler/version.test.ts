import { describe, expect, it } from 'vitest';
import { PoolSpec } from '../../../src/scheduler/spec.ts';
import { differenceInWords, versionOf } from '../../../src/scheduler/version.ts';

const pool = (more: object = {}) =>
  PoolSpec.parse({ model: 'tiny', machines: [{ provider: 'here' }], ...more });

describe('the version of what a worker is started with', () => {
  it('is ten characters, the same in every process', () => {
    // Another value here would replace the workers of every fleet when its queue is upgraded.
    expect(versionOf(pool())).toBe('a0ef57ec8f');
  });

  it.each([
    { image: 'other' },
    { env: { A: 'b' } },
    { secrets: ['HF_TOKEN'] },
    { model: 'other' },
    { engine: 'external' },
    { slots: 3 },
    { revision: 'the new token' },
    { adapters: [{ name: 'sql', source: 'acme/sql' }] },
  ])('is another one with %j', (change) => {
    expect(versionOf(pool(change))).not.toBe(versionOf(pool()));
  });

  it.each([
    { min: 1, max: 5 },
    { machines: [{ provider: 'there', price_per_hour: 2 }] },
    { update: { surge: 3, patience: '1m' } },
    { keep_warm: 60, utilization: 0.5, served_names: ['x'] },
  ])('is the same with %j', (change) => {
    expect(versionOf(pool(change))).toBe(versionOf(pool()));
  });

  it('heeds no order of variables and secrets, and what is left out is what it is by default', () => {
    const one = pool({ env: { A: '1', B: '2' }, secrets: ['X', 'Y'] });
    const other = pool({ env: { B: '2', A: '1' }, secrets: ['Y', 'X'], slots: 8 });
    expect(versionOf(one)).toBe(versionOf(other));
    expect(versionOf(one, 1)).not.toBe(versionOf(one));
  });

  it('is told apart from the one before in words', () => {
    const before = pool({ image: 'a:1', env: { A: '1', B: '2' } });
    const after = pool({ image: 'a:2', env: { A: '1', B: '3', C: '4' } });
    expect(differenceInWords(after, before)).toBe('image a:2; B=3; C=4');
    expect(differenceInWords(before, after)).toBe('image a:1; B=2; without C');
    expect(differenceInWords(after, after)).toBe('the same, started anew');
  });
});
