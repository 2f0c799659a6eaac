import { describe, expect, it } from 'vitest';
import { permissionsOf, requestPriority } from '../../../src/gateway/auth/permissions.ts';
import type { TokenEntry } from '../../../src/settings/token-entry.ts';

const bounds = (more: Partial<TokenEntry> = {}) =>
  permissionsOf({ name: 'app', sha256: '', scopes: ['submit'], ...more }, {});
const priority = (more: Partial<TokenEntry>, asked: unknown[], tier: string | null = null) =>
  requestPriority(asked, tier, bounds(more));

const URGENT = { default_priority: 3, highest_priority: 10 };

describe('the priority of a request', () => {
  it.each([
    ['nothing is asked for', {}, [undefined, null], null, 0],
    ['nothing is asked for, of a token with a default', URGENT, [undefined, null], null, 3],
    ['the tier auto', URGENT, [], 'auto', 3],
    ['a tier that nobody knows', URGENT, [], 'gold', 3],
    ['the tier flex', URGENT, [], 'flex', -5],
    ['the tier flex, of a token that is lower by itself', { default_priority: -8 }, [], 'flex', -8],
    ['the tier priority', URGENT, [], 'priority', 10],
    ['the tier priority, of a token that may not go higher', {}, [], 'priority', 0],
    ['what is asked of the engine', URGENT, [undefined, -7], 'flex', 7],
    ['what is asked of the engine in a header, before the body', URGENT, ['-2', -7], null, 2],
    ['what is asked of the engine, lower', {}, [undefined, 5000], null, -1000],
    ['a fraction, which is left to the engine', URGENT, [undefined, 0.5], null, 3],
  ])('is, for %s', (_, entry, asked, tier, expected) => {
    expect(priority(entry, asked, tier)).toBe(expected);
  });

  it('is never above what its token allows', () => {
    expect(() => priority(URGENT, [undefined, -11])).toThrow(/may ask for -10 at least/);
    expect(() => priority({}, ['-0.5'])).toThrow(/may ask for 0 at least/);
    // Python and Rust take these for -9, JavaScript for none.
    for (const text of ['\u0085-9', '-\u0669', '\u2003-9\u0085'])
      expect(() => priority({}, [text])).toThrow(/may ask for 0 at least/);
    expect(priority({ default_priority: 9 }, [])).toBe(0);
    expect(() => priority({ highest_priority: -10 }, [undefined, 0])).toThrow(/may ask for 10 at least/);
  });
});
