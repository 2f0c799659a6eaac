import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { costLines } from '../../../../src/commands/fleet/check.ts';
import { readFleetText } from '../../../../src/commands/fleet/file.ts';
import { openApiDocument } from '../../../../src/gateway/openapi/document.ts';
import { newAjv } from '../../../support/contract.ts';

const EXAMPLE = readFileSync(join(import.meta.dirname, '../../../../examples/fleet.yaml'), 'utf8');

function costs(text: string): string[] {
  const { spec, faults } = readFleetText(text, {});
  expect(faults).toEqual([]);
  return costLines(spec!);
}

describe('what a fleet costs', () => {
  it('is told at min and at max, from the cheapest machines to the dearest, against the budget', () => {
    const lines = costs(`
budget: { per_hour: 5, per_day: 500 }
providers: { here: { driver: process }, pod: { driver: runpod } }
pools:
  large: { model: m, min: 1, max: 3, machines: [{ provider: here, price_per_hour: 2 }, { provider: pod, price_per_hour: 2.5 }] }
  small: { model: m, max: 2, machines: [{ provider: here }] }
`);
    expect(lines).toEqual([
      'CONFIG  MIN     $/HOUR        $/DAY  MAX     $/HOUR          $/DAY',
      'large     1  2.00–2.50  48.00–60.00    3  6.00–7.50  144.00–180.00',
      'small     0       0.00         0.00    2       0.00           0.00',
      'all       1  2.00–2.50  48.00–60.00    5  6.00–7.50  144.00–180.00',
      '',
      'The budget of $5.00 an hour is less than all of it at max: no worker is started beyond it.',
      'The budget of $500.00 a day allows all of it at max.',
    ]);
  });

  it('is not made up where only the provider knows a price', () => {
    const lines = costs(`
providers: { here: { driver: process }, pod: { driver: runpod } }
pools:
  a: { model: m, max: 2, machines: [{ provider: pod }] }
  b: { model: m, max: 2, machines: [{ provider: here, price_per_hour: 1 }, { provider: pod }] }
`);
    expect(lines[1]).toMatch(/^a +0 +0.00 +0.00 +2 +\? +\?$/);
    expect(lines[2]).toMatch(/^b +0 +0.00 +0.00 +2 +2.00 or more +48.00 or more$/);
    expect(lines.at(-1)).toBe('There is no budget: max alone bounds what it costs.');
  });
});

describe('examples/fleet.yaml', () => {
  // The second example is the commented rest of the file.
  const [first = '', second = ''] = EXAMPLE.split('# A real fleet,');
  const real = second
    .split('\n')
    .slice(2)
    .map((line) => line.replace(/^# ?/, ''))
    .join('\n');

  it.each([
    ['what is in force', first],
    ['what is commented out', real],
  ])('is in order: %s', (_, text) => {
    const { faults, warnings, spec } = readFleetText(text, { HF_TOKEN: 'x', RUNPOD_API_KEY: 'x' });
    expect([faults, warnings]).toEqual([[], []]);
    expect(Object.keys(spec!.pools)).toHaveLength(1);
  });

  it('fits the schema by which editors complete it', () => {
    const schemas = newAjv().addSchema(openApiDocument([]), 'openapi');
    const fits = schemas.getSchema('openapi#/components/schemas/fleet')!;
    expect(fits(parse(EXAMPLE)), JSON.stringify(fits.errors)).toBe(true);
    expect(fits({ ...parse(EXAMPLE), bugdet: {} })).toBe(false);
  });
});

it.each([
  ['runpod', 1],
  ['vast', 1],
  ['kubernetes', 1],
  ['docker', 0],
  ['process', 0],
])('a pool without an image on machines of %s gets %i warnings: none is published', (driver, count) => {
  const text = `
providers: { there: { driver: ${driver} } }
pools: { a: { model: m, max: 1, machines: [{ provider: there, instance_type: x }] } }
`;
  const said = readFleetText(text, {}).warnings.filter((warning) => warning.text.includes('names no image'));
  expect(said).toHaveLength(count);
  const withImage = text.replace('model: m', 'model: m, image: registry.example.com/me/worker-vllm');
  expect(readFleetText(withImage, {}).warnings.filter((warning) => warning.text.includes('image'))).toEqual(
    [],
  );
});
