import { describe, expect, it } from 'vitest';
import { requireStoring, storesByDefault } from '../../../src/features/responses/gateway/store-policy.ts';
import { tokenEntry } from '../../support/token-entry.ts';

const denied = expect.objectContaining({ status: 403, code: 'store_denied' });
const refusalOf = (work: () => unknown): unknown => {
  try {
    return work();
  } catch (error) {
    return error;
  }
};

describe('what a token may store', () => {
  it.each([
    ['nothing is said', undefined, true],
    ['allow', 'allow', true],
    ['off', 'off', false],
    ['deny', 'deny', false],
  ] as const)('%s: decides about a request that does not say', (_, store, isStored) => {
    const token = tokenEntry('t', ['submit'], { store });
    expect(storesByDefault(token, {})).toBe(isStored);
    expect(storesByDefault(token, { store: false })).toBe(isStored);
  });

  it('is everything without tokens', () => {
    expect(storesByDefault(null, { background: true, store: true })).toBe(true);
    expect(() => requireStoring(null, null)).not.toThrow();
  });

  it('is what a request asks for, unless it is denied', () => {
    const [off, deny] = (['off', 'deny'] as const).map((store) => tokenEntry('t', ['submit'], { store }));
    for (const body of [{ store: true }, { background: true }, { background: true, store: false }]) {
      expect(storesByDefault(off!, body)).toBe(false);
      expect(refusalOf(() => storesByDefault(deny!, body))).toEqual(denied);
    }
    expect(refusalOf(() => requireStoring(deny!, null))).toEqual(denied);
  });
});
