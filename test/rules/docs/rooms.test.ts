import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importRules, type Row, readRooms } from '../../../scripts/rooms.ts';

/** The table of rooms, read as rules. */
let sources: string;
beforeAll(() => {
  sources = mkdtempSync(join(tmpdir(), 'rooms-'));
  for (const folder of ['base', 'shop/store', 'shop/verbs'])
    mkdirSync(join(sources, folder), { recursive: true });
  for (const file of ['base/text.ts', 'shop/main.ts']) writeFileSync(join(sources, file), '');
});
afterAll(() => rmSync(sources, { recursive: true }));

const table = (...rows: string[]) =>
  `# Rooms\n\n| room | concern | may import |\n${rows.join('\n')}\n\nMore.\n`;
const BASE = '| `base/` | first | – |';
const read = (...rows: string[]) => readRooms(table(...rows), sources);

/** Whether the rules let one file of `src/` import another. */
function allows(rows: Row[], from: string, to: string): boolean {
  const matches = (pattern: string, path: string) => new RegExp(pattern).test(path);
  return !importRules(rows).some(
    (rule) =>
      matches(rule.from.path, from) &&
      matches(rule.to.path, to) &&
      !rule.to.pathNot.some((pattern) => matches(pattern, to)),
  );
}

describe('the table of rooms', () => {
  it('lets a room import itself and what its row names, whole or by file', () => {
    const rows = read(BASE, '| `shop/` | second | `base/text` |');
    expect(allows(rows, 'src/shop/main.ts', 'src/shop/verbs/buy.ts')).toBe(true);
    expect(allows(rows, 'src/shop/main.ts', 'src/base/text.ts')).toBe(true);
    expect(allows(rows, 'src/shop/main.ts', 'src/base/text-more.ts')).toBe(false);
    expect(allows(rows, 'src/base/text.ts', 'src/shop/main.ts')).toBe(false);
  });

  it('bounds a folder within its room, and leaves what is outside to the room', () => {
    const rows = read(BASE, '| `shop/` | second | base |', '| `shop/verbs/` | third | `shop/store` |');
    expect(allows(rows, 'src/shop/verbs/buy.ts', 'src/shop/store/rows.ts')).toBe(true);
    expect(allows(rows, 'src/shop/verbs/buy.ts', 'src/shop/main.ts')).toBe(false);
    expect(allows(rows, 'src/shop/verbs/buy.ts', 'src/base/text.ts')).toBe(true);
    expect(allows(rows, 'src/shop/store/rows.ts', 'src/shop/verbs/buy.ts')).toBe(true);
  });

  it('holds a row for each folder that it names', () => {
    const rows = read(BASE, '| `shop/` | second | base |', '| `shop/store/`, `shop/verbs/` | third | – |');
    expect(allows(rows, 'src/shop/verbs/buy.ts', 'src/shop/verbs/sell.ts')).toBe(true);
    expect(allows(rows, 'src/shop/verbs/buy.ts', 'src/shop/store/rows.ts')).toBe(false);
    expect(allows(rows, 'src/shop/store/rows.ts', 'src/shop/main.ts')).toBe(false);
  });

  it('takes a star for any part of a name', () => {
    const rows = read(BASE, '| `shop/` | second | `*/text` |');
    expect(allows(rows, 'src/shop/main.ts', 'src/base/text.ts')).toBe(true);
    expect(allows(rows, 'src/shop/main.ts', 'src/base/more/text.ts')).toBe(false);
    expect(allows(rows, 'src/shop/main.ts', 'src/base/other.ts')).toBe(false);
    expect(() => read(BASE, '| `shop/` | second | `*/gone` |')).toThrow('there is no src/*/gone');
  });

  it('names what is missing, dead or not a name', () => {
    expect(() => read(BASE)).toThrow('no row for src/shop/');
    expect(() => read(BASE, '| `shop/` | second | client |')).toThrow('there is no src/client');
    expect(() => read(BASE, '| `gone/` | second | – |')).toThrow('there is no src/gone/');
    expect(() => read(BASE, '| `shop/` | second | all but base |')).toThrow('"all but base"');
  });
});

describe('the check of imports', () => {
  it('reads every file of src: without @swc/core it would read none and find nothing', () => {
    const root = fileURLToPath(new URL('../../..', import.meta.url));
    const run = (command: string, ...args: string[]) =>
      execFileSync(command, args, { cwd: root, encoding: 'utf8', maxBuffer: 1e9, stdio: 'pipe' });
    const { modules } = JSON.parse(
      run(
        'node_modules/.bin/depcruise',
        '--config',
        'scripts/dependency-cruiser.js',
        'src',
        '--output-type',
        'json',
      ),
    );
    const read = modules.map(({ source }: { source: string }) => source);
    const there = run('git', 'ls-files', '--cached', '--others', '--exclude-standard', 'src');
    const importing = there.split('\n').filter((path) => /\.tsx?$/.test(path));
    expect(read).toEqual(expect.arrayContaining(importing));
  });
});
