import { describe, expect, it } from 'vitest';
import { readFleetText } from '../../../../src/commands/fleet/file.ts';

const FLEET = `
providers: { here: { driver: process } }
pools:
  p: { model: org/big, served_names: [big], machines: [{ provider: here, price_per_hour: 1 }] }
  q: { model: small, machines: [{ provider: here, price_per_hour: 1 }] }
aliases:
`;

/** The first line of what is added to the file. */
const FIRST = FLEET.split('\n').length;

function read(aliases: string) {
  const { faults, spec } = readFleetText(FLEET + aliases, {});
  const lines = faults.map(({ line, path, text }) => `${line - FIRST + 1}: ${path}: ${text}`);
  return { faults: lines, aliases: spec?.aliases };
}

describe('the aliases of a fleet file', () => {
  it('are read in their short form, and with all that they may have', () => {
    const { faults, aliases } = read(`
  fast: { to: [{ model: small }] }
  gpt-4o:
    split: { by: tenant }
    to:
      - { model: big, weight: 9 }
      - { model: fast, weight: 1 }
    then: [small-one, { external: openai/gpt-4o-mini }]
    on: [no_worker, queue_full, starting_over: 30s, failed]
    mirror: { model: big, share: 0.05 }
`);
    expect(faults).toEqual([]);
    expect(aliases).toEqual({
      fast: { split: { by: 'session' }, to: [{ model: 'small', weight: 1 }], then: [], on: [] },
      'gpt-4o': {
        split: { by: 'tenant' },
        to: [
          { model: 'big', weight: 9 },
          { model: 'fast', weight: 1 },
        ],
        then: ['small-one', { external: 'openai/gpt-4o-mini' }],
        on: ['no_worker', 'queue_full', { starting_over: 30 }, 'failed'],
        mirror: { model: 'big', share: 0.05 },
      },
    });
  });

  it('may be all that a file has, which then says that it has no pools', () => {
    const aliases = 'aliases: { a: { to: [{ model: b }] } }';
    const faults = (text: string) =>
      readFleetText(text, {}).faults.map(({ path, text }) => `${path}: ${text}`);
    expect(faults(aliases)).toEqual([
      'providers: is missing; write "providers: {}" if you start all workers yourself',
      'pools: is missing; write "pools: {}" if you start all workers yourself',
    ]);
    expect(faults(`providers: {}\npools: {}\n${aliases}`)).toEqual([]);
  });

  it.each([
    [
      'unknown fields',
      '  a: { to: [{ model: small }], wait: 3 }',
      ['1: aliases.a.wait: is not known here; possible are split, to, then, on, mirror'],
    ],
    ['no models', '  a: { to: [] }', ['1: aliases.a.to: must not be empty']],
    [
      'weights that are no numbers',
      '  a: { to: [{ model: small, weight: much }] }',
      ['1: aliases.a.to[0].weight: expected'],
    ],
    [
      'weights without a sum',
      '  a: { to: [{ model: small, weight: 0 }] }',
      ['1: aliases.a.to: the weights add up to 0'],
    ],
    [
      'a cause that there is not',
      '  a: { to: [{ model: small }], on: [slow] }',
      ['1: aliases.a.on[0]: expected'],
    ],
    ['a name of a pool', '  p: { to: [{ model: small }] }', ['1: aliases.p: is a model of the pool p']],
    [
      'a model of a pool',
      '  org/big: { to: [{ model: small }] }',
      ['1: aliases.org/big: is a model of the pool p'],
    ],
    [
      'a served name of a pool',
      '  big: { to: [{ model: small }] }',
      ['1: aliases.big: is a model of the pool p'],
    ],
    [
      'the name that means any model',
      '  default: { to: [{ model: small }] }',
      ['1: aliases.default: is the model that is there'],
    ],
    [
      'a model twice',
      '  a: { to: [{ model: small }, { model: small }] }',
      ['1: aliases.a.to[1].model: "small" is there twice'],
    ],
    [
      'a fall-back to itself',
      '  a:\n    to: [{ model: small }]\n    then: [small]\n    on: [failed]',
      ['3: aliases.a.then[0]: "small" is among the models before it'],
    ],
    [
      'a fall-back without a cause',
      '  a: { to: [{ model: small }], then: [big] }',
      ['1: aliases.a.then: no request ever falls back'],
    ],
    [
      'an alias of itself',
      '  a: { to: [{ model: a }] }',
      ['1: aliases.a.to[0].model: the alias leads back to itself: a → a'],
    ],
    [
      'a mirror that is an alias',
      '  a:\n    to: [{ model: small }]\n    mirror: { model: b, share: 1 }\n  b: { to: [{ model: small }] }',
      ['3: aliases.a.mirror.model: "b" is an alias: name one model'],
    ],
    [
      'a share over 1',
      '  a: { to: [{ model: small }], mirror: { model: big, share: 5 } }',
      ['1: aliases.a.mirror.share: '],
    ],
    [
      'a circle',
      '  a: { to: [{ model: b }] }\n  b: { to: [{ model: small }], then: [a], on: [failed] }',
      [
        '1: aliases.a.to[0].model: the alias leads back to itself: a → b → a',
        '2: aliases.b.then[0]: the alias leads back to itself: b → a → b',
      ],
    ],
    [
      'aliases that are nested too deep',
      [...'abcde'].map((name, at) => `  ${name}: { to: [{ model: ${'bcde'[at] ?? 'small'} }] }`).join('\n'),
      ['1: aliases.a.to[0].model: aliases of aliases may be 4 deep'],
    ],
  ])('are refused with their line for %s', (_, aliases, expected) => {
    const { faults } = read(aliases);
    expect(faults).toEqual(expected.map((text) => expect.stringContaining(text)));
  });

  it('may be nested four deep', () => {
    const nested = [...'abcd'].map((name, at) => `  ${name}: { to: [{ model: ${'bcd'[at] ?? 'small'} }] }`);
    expect(read(nested.join('\n')).faults).toEqual([]);
  });
});
