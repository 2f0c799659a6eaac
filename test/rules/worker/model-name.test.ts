import fc from 'fast-check';
import { expect, test } from 'vitest';
import { replaceModelAlias } from '../../../src/worker/run/request-body.ts';

const ALIASES = new Set(['default', 'config']);
const replace = (body: string) => replaceModelAlias(body, ALIASES, 'served');

test.each([
  ['{"model":"default"}', '{"model":"served"}'],
  [
    '{ "a": [1, {"model":"default"}], "model" :\n"config" }',
    '{ "a": [1, {"model":"default"}], "model" :\n"served" }',
  ],
  ['{"model":"other","x":{"model":"default"}}', '{"model":"other","x":{"model":"default"}}'],
  [
    '{"text":"\\"model\\":\\"default\\"","model":"default"}',
    '{"text":"\\"model\\":\\"default\\"","model":"served"}',
  ],
  ['{"x":"model","y":"default","model":"a"}', '{"x":"model","y":"default","model":"a"}'],
  ['[{"model":"default"}]', '[{"model":"default"}]'],
  ['not "model":"default" json', 'not "model":"default" json'],
])('%s becomes %s', (given, expected) => {
  expect(replace(given)).toBe(expected);
});

test('only the model changes, whatever else the body holds', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.boolean(), (fields, isAlias) => {
      const body = { ...fields, model: isAlias ? 'default' : 'other' };
      const expected = { ...body, model: isAlias ? 'served' : 'other' };
      expect(replace(JSON.stringify(body))).toBe(JSON.stringify(expected));
    }),
  );
});

test('texts of many megabytes are no trouble, with and without escapes', () => {
  for (const text of ['x'.repeat(2e7), '\\"'.repeat(5e6), '\\\\'.repeat(5e6)]) {
    expect(replace(`{"text":"${text}","model":"default"}`)).toBe(`{"text":"${text}","model":"served"}`);
    expect(replace(`{"model":"${text}"}`)).toBe(`{"model":"${text}"}`);
  }
});
