import { describe, expect, it } from 'vitest';
import { type Disk, RECORD, type Recorded, replay } from '../../../../support/recorded-writes.ts';

/** What the tests of power losses take for the disk after one. */

type Operation = [kind: keyof typeof RECORD, path: string, text?: string];

/** Returns the files after operations, each of which is done before the next one begins. */
function after(
  operations: Operation[],
  before: Record<string, string> = {},
  keeps = false,
): Record<string, string> {
  const disk: Disk = new Map(Object.entries(before).map(([path, text]) => [path, Buffer.from(text)]));
  const records = operations.map(([kind, path, text = ''], at): Recorded => {
    const offset = kind === 'sync' ? at : 0;
    return { at, kind: RECORD[kind], path, offset, bytes: Buffer.from(text) };
  });
  const left = replay(disk, records, () => keeps).disk;
  return Object.fromEntries([...left].map(([path, bytes]) => [path, bytes.toString()]));
}

const WRITTEN: Operation[] = [
  ['create', '/s/a.new'],
  ['write', '/s/a.new', 'new'],
  ['sync', '/s/a.new'],
  ['rename', '/s/a.new', '/s/a'],
];

describe('a power loss', () => {
  it('loses a file whose folder is not synced', () => {
    const made: Operation[] = [...WRITTEN.slice(0, 3)];
    expect(after(made)).toEqual({});
    expect(after([...made, ['sync', '/s']])).toEqual({ '/s/a.new': 'new' });
  });

  it('undoes a rename whose folder is not synced', () => {
    expect(after(WRITTEN, { '/s/a': 'old' })).toEqual({ '/s/a': 'old' });
    expect(after([...WRITTEN, ['sync', '/s']], { '/s/a': 'old' })).toEqual({ '/s/a': 'new' });
    const stored: Operation[] = [...WRITTEN.slice(0, 3), ['sync', '/s'], ...WRITTEN.slice(3)];
    expect(after(stored, { '/s/a': 'old' })).toEqual({ '/s/a': 'old', '/s/a.new': 'new' });
  });

  it('finds what was written before a rename at its new name', () => {
    const unsynced: Operation[] = [
      ['write', '/s/b', 'later'],
      ['rename', '/s/b', '/s/c'],
      ['sync', '/s'],
    ];
    expect(after(unsynced, { '/s/b': 'first' })).toEqual({ '/s/c': 'first' });
    expect(after(unsynced, { '/s/b': 'first' }, true)).toEqual({ '/s/c': 'later' });
    expect(after([...unsynced, ['sync', '/s/c']], { '/s/b': 'first' })).toEqual({ '/s/c': 'later' });
  });

  it('moves all that is in a renamed folder', () => {
    const swap: Operation[] = [
      ['rename', '/s/data', '/s/before'],
      ['rename', '/s/made', '/s/data'],
    ];
    const before = { '/s/data/x': 'old', '/s/made/x': 'new' };
    expect(after(swap, before)).toEqual(before);
    expect(after([...swap, ['sync', '/s']], before)).toEqual({ '/s/before/x': 'old', '/s/data/x': 'new' });
  });
});
