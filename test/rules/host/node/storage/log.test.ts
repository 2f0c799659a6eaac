import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { useLog } from '../../../../../src/host/node/storage/write-ahead-log.ts';
import { ADatabase } from './a-database.ts';

const a = new ADatabase();

describe('the log', () => {
  const limits = { copied: 100_000, held: 400_000, most: 1_600_000 };
  const logBytes = () => statSync(`${a.path}-wal`).size;

  it('stays bounded while groups are written without an end', async () => {
    await a.use(a.path, limits);
    let longest = 0;
    for (let n = 0; n < 300; n += 1) {
      await a.storage.gathered();
      a.put(n, 'x'.repeat(20_000));
      a.database.commitNow();
      longest = Math.max(longest, logBytes());
    }
    expect(longest).toBeGreaterThan(limits.copied);
    // One group may come on top.
    expect(longest).toBeLessThan(limits.held + 100_000);
    expect(a.all()).toHaveLength(300);
    expect(a.told).toEqual([]);
  });

  it('stays bounded under writes that wait for nothing', async () => {
    await a.use(a.path, limits);
    let longest = 0;
    for (let n = 0; n < 300; n += 1) {
      a.put(n, 'x'.repeat(20_000));
      a.database.commitNow();
      longest = Math.max(longest, logBytes());
    }
    expect(longest).toBeGreaterThan(limits.held);
    expect(longest).toBeLessThan(limits.most + 100_000);
    await a.database.synced();
    expect(a.all()).toHaveLength(300);
  });

  it('is not held back for somebody who reads an old state', async () => {
    await a.use(a.path, limits);
    a.put(-1);
    await a.database.synced();
    const reader = new DatabaseSync(a.path, { readOnly: true });
    reader.exec('BEGIN');
    reader.prepare('SELECT * FROM t').all();
    for (let n = 0; n < 50; n += 1) {
      await a.storage.gathered();
      a.put(n, 'x'.repeat(20_000));
      a.database.commitNow();
    }
    reader.close();
    expect(a.all()).toHaveLength(51);
  });

  it('of a process that was killed is read again', async () => {
    a.put(1);
    await a.database.synced();
    // As a killed process leaves them.
    execFileSync('cp', ['-r', join(a.folder, 'data'), join(a.folder, 'killed')]);
    const again = await a.open(join(a.folder, 'killed', 'a%2Fb', 'queue.sqlite'));
    expect(a.all(again.begin())).toEqual([1]);
  });

  it('is synced through to the drive also where fsync alone leaves data in the drive', () => {
    const database = new DatabaseSync(join(dirname(a.path), 'synced.sqlite'));
    useLog(database, limits.copied);
    expect(database.prepare('PRAGMA fullfsync').get()).toEqual({ fullfsync: 1 });
    expect(database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 1 });
    database.close();
  });
});
