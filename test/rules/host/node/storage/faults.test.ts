import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADatabase } from './a-database.ts';

const a = new ADatabase();

describe('a database that cannot be used', () => {
  it.each([
    [
      'no database',
      () => writeFileSync(a.path, 'garbage garbage!'.repeat(500)),
      /queue.sqlite failed: .*SQLITE_NOTADB$/,
    ],
    ['damaged', () => truncateSync(a.path, 5000), /queue.sqlite failed: .*SQLITE_CORRUPT$/],
  ])('says so when it is %s', async (_, damage, message) => {
    for (let n = 0; n < 50; n += 1) a.put(n, 'x'.repeat(1000));
    await a.database.close();
    damage();
    const use = async () => a.all((await a.open(a.path)).begin());
    await expect(use()).rejects.toThrow(message);
    expect(a.told).toEqual([]);
  });

  it('says so when there is a file in the place of its folder', async () => {
    writeFileSync(join(a.folder, 'file'), '');
    await expect(a.open(join(a.folder, 'file', 'queue.sqlite'))).rejects.toThrow(
      /failed: .*SQLITE_CANTOPEN$/,
    );
    mkdirSync(join(a.folder, 'sub.sqlite'));
    await expect(a.open(join(a.folder, 'sub.sqlite'))).rejects.toThrow(/failed: .*SQLITE_(CANTOPEN|IOERR)$/);
  });

  it('says so when it may not be written', async (context) => {
    if (process.getuid?.() === 0) context.skip('root may write everything');
    await a.database.close();
    chmodSync(a.path, 0o400);
    const use = async () => (await a.open(a.path)).begin().sql.exec('DELETE FROM t');
    await expect(use()).rejects.toThrow(/failed: .*SQLITE_(READONLY|CANTOPEN)$/);
  });
});

describe('a full disk', () => {
  let mount: string | null = null;
  beforeEach((context) => {
    const small = join(a.folder, 'small');
    mkdirSync(small);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', small], { stdio: 'ignore' });
      mount = small;
    } catch {
      context.skip('a file system of a known size can be mounted by root alone');
    }
  });
  afterEach(async () => {
    await a.close();
    if (mount) execFileSync('umount', [mount]);
    mount = null;
  });

  it('undoes the group that met it; what was stored stays, and there can be room again', async () => {
    await a.use(join(mount!, 'queue.sqlite'));
    a.makeTable();
    const outputs: string[] = [];
    let n = 0;
    while (a.told.length === 0 && n < 100) {
      n += 1;
      const text = `${n}`;
      a.put(n, 'x'.repeat(100_000));
      a.database.whenSynced(
        () => outputs.push(text),
        ({ message }) => outputs.push(`${text} ${message}`),
      );
      await a.database.synced()?.catch(() => {});
    }
    expect(a.told).toEqual([
      { lost: expect.stringMatching(/^the database .* failed: .*full: SQLITE_FULL$/) },
    ]);
    expect(outputs.at(-1)).toMatch(/SQLITE_FULL$/);
    expect(() => a.all()).toThrow(/SQLITE_FULL$/);
    a.storage = a.database.begin();
    expect(a.all()).toEqual(Array.from({ length: n - 1 }, (_, at) => at + 1));
    execFileSync('mount', ['-o', 'remount,size=16m', mount!]);
    a.put(n);
    await a.database.synced();
    expect(a.all()).toHaveLength(n);
  });

  it('undoes a group that is larger than the room there is', async () => {
    await a.use(join(mount!, 'queue.sqlite'));
    a.makeTable();
    await a.database.synced();
    const fill = () => {
      for (let n = 0; n < 60; n += 1) a.put(n, 'x'.repeat(200_000));
    };
    expect(() => a.storage.transaction(fill)).toThrow(/SQLITE_FULL$/);
    await Promise.resolve();
    expect(a.told).toEqual([{ lost: expect.stringMatching(/SQLITE_FULL$/) }]);
    a.storage = a.database.begin();
    expect(a.all()).toEqual([]);
  });
});
