import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, it } from 'vitest';
import { indentedJson, jsonLines, surveyFile } from '../../../src/commands/json-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'json-files-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('JSON is indented as JSON.stringify does, whatever it holds', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const json = JSON.stringify(value);
      expect(indentedJson(json)).toBe(JSON.stringify(JSON.parse(json), null, 2));
    }),
  );
  expect(indentedJson('{ "a":[1.0, {}],"b" :9007199254740993}')).toBe(
    '{\n  "a": [\n    1.0,\n    {}\n  ],\n  "b": 9007199254740993\n}',
  );
});

it('lines are numbered, also blank ones, and come whole however long they are', async () => {
  const long = JSON.stringify({ text: 'größe '.repeat(100_000) });
  const file = join(folder, 'lines.jsonl');
  writeFileSync(file, `\ufeff{"a":1}\r\n\n${long}\n  \n{"b":2}`);
  const lines: object[] = [];
  for await (const line of jsonLines(file)) lines.push(line);
  expect(lines).toEqual([
    { line: 1, text: '{"a":1}' },
    { line: 3, text: long },
    { line: 5, text: '{"b":2}' },
  ]);
});

it('a line that is no UTF-8 is named', async () => {
  const file = join(folder, 'latin1.jsonl');
  writeFileSync(file, Buffer.from('{"a":1}\n{"a":"ü"}\n', 'latin1'));
  const reading = (async () => {
    for await (const _ of jsonLines(file));
  })();
  await expect(reading).rejects.toThrow(/latin1.jsonl, line 2: this is no UTF-8: the byte 0xfc at offset 6/);
});

it('a file that is not there is named, with what it should hold', async () => {
  await expect(surveyFile(join(folder, 'none.jsonl'))).rejects.toThrow(
    /none\.jsonl cannot be read: there is no such file\. Each line is a job, or a payload such as/,
  );
});
