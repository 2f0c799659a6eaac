import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import * as z from 'zod';
import { schemaWords } from '../../../src/protocol/index.ts';

const Schema = z.object({
  name: z.string().min(3).max(5),
  note: z.string().min(1),
  count: z.number().int().min(1).max(5),
  share: z.number().positive(),
  kind: z.enum(['docker', 'process']),
  tags: z.array(z.string()).max(1),
  closed: z.strictObject({ model: z.string().optional() }),
  either: z.union([z.string(), z.array(z.string())]),
  shape: z.discriminatedUnion('type', [
    z.object({ type: z.literal('load') }),
    z.object({ type: z.literal('ping') }),
  ]),
  at: z.iso.datetime(),
  path: z.string().startsWith('/'),
  own: z.string().regex(/^a/, 'must begin with an a'),
  object: z.record(z.string(), z.unknown()),
});

const GOOD = {
  name: 'abcd',
  note: 'x',
  count: 1,
  share: 0.5,
  kind: 'docker',
  tags: [],
  closed: {},
  either: 'x',
  shape: { type: 'load' },
  at: '2026-01-31T12:00:00Z',
  path: '/v1',
  own: 'abc',
  object: {},
};

it.each([
  [{ name: 'x' }, 'expected at least 3 characters, not 1'],
  [{ name: 'abcdef' }, 'expected at most 5 characters, not 6'],
  [{ name: undefined }, 'is missing'],
  [{ note: '' }, 'must not be empty'],
  [{ count: 0.5 }, 'expected a whole number, not 0.5'],
  [{ count: Number.NaN }, 'expected a number, not NaN'],
  [{ count: 9 }, 'expected at most 5, not 9'],
  [{ share: 0 }, 'expected more than 0, not 0'],
  [{ kind: 'dokcer' }, 'expected docker or process, not "dokcer"; did you mean docker?'],
  [{ tags: ['a', 'b'] }, 'expected at most 1 item, not 2'],
  [{ closed: { modle: 'x' } }, '"modle" is not known here; did you mean model?'],
  [{ closed: { colour: 'x' } }, '"colour" is not known here; possible are model'],
  [{ either: 7 }, 'expected a text or a list, not 7'],
  [{ shape: { type: 'laod' } }, 'expected load or ping, not "laod"; did you mean load?'],
  [{ shape: {} }, 'is missing'],
  [{ at: 'noon' }, 'expected a time such as 2026-01-31T12:00:00Z, not "noon"'],
  [{ path: 'v1' }, 'must begin with "/", not "v1"'],
  [{ own: 'b' }, 'must begin with an a'],
  [{ object: ['x'] }, 'expected names with values, not ["x"]'],
])('%j: %s', (change, words) => {
  const { error } = Schema.safeParse({ ...GOOD, ...change }, { error: schemaWords });
  expect(error?.issues.map(({ message }) => message)).toEqual([words]);
});

it('is what every message of a schema is made with that somebody reads', () => {
  const plain = globSync('src/**/*.ts').filter((path) => {
    const source = readFileSync(path, 'utf8');
    const isRead =
      /\bissues?\b(?:\[0\])?\??\.message|\bissues\.map\(\(\{[^}]*\bmessage\b|\bmessage\b[^}]*\} = .*issues/.test(
        source,
      );
    return isRead && source.includes('safeParse(') && !source.includes('Words }');
  });
  expect(plain).toEqual([]);
});
