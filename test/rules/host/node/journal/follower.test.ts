import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { encode } from '../../../../../src/host/node/journal/entry.ts';
import { JournalMembers, numbers, put } from '../../../../support/journal-members.ts';

const members = new JournalMembers();

describe('a follower', () => {
  it('has the same rows as the owner, whatever it writes', async () => {
    const one = await members.owner();
    const two = await members.member();
    const { database, storage } = await one.database();
    const { sql, alarm } = storage;
    sql.exec('CREATE TABLE t (n INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT, bytes BLOB, real REAL) STRICT');
    sql.exec('CREATE TABLE telemetry (at INTEGER)');
    sql.exec('CREATE TABLE k (key TEXT PRIMARY KEY, n) WITHOUT ROWID');
    sql.exec('CREATE UNIQUE INDEX by_text ON t (text) WHERE text IS NOT NULL');
    for (let n = 1; n <= 50; n += 1) {
      sql.exec(
        'INSERT INTO t (text, bytes, real) VALUES (?, ?, ?)',
        `é${n}`,
        Uint8Array.of(n, 0, 255),
        n / 3,
      );
      sql.exec('INSERT INTO telemetry VALUES (?)', n);
      sql.exec('INSERT INTO k VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + 1', `k${n % 7}`, n);
    }
    await database.synced();
    expect(sql.exec('DELETE FROM t WHERE n % 3 = 0 RETURNING n')).toHaveLength(16);
    sql.exec('DELETE FROM telemetry WHERE rowid > 40');
    expect(() => sql.exec('INSERT INTO t (text) VALUES (?)', 'é1')).toThrow('UNIQUE');
    storage.transaction(() => sql.exec('INSERT INTO t (text) VALUES (?)', 'kept'));
    expect(() =>
      storage.transaction(() => {
        sql.exec('INSERT INTO t (text) VALUES (?)', 'undone');
        storage.transaction(() => sql.exec('DELETE FROM t'));
        throw new Error('no');
      }),
    ).toThrow('no');
    storage.transaction(() => {
      sql.exec('INSERT INTO telemetry VALUES (100)');
      try {
        storage.transaction(() => {
          sql.exec('INSERT INTO telemetry VALUES (101)');
          throw new Error('no');
        });
      } catch {}
      sql.exec('INSERT INTO telemetry VALUES (102)');
    });
    alarm.set(1234);
    await database.synced();
    await two.follow();
    expect(two.dump()).toEqual(one.dump());
    const rows = one.dump()['a/queue.sqlite']!;
    expect(rows.t!.some((row) => (row as { text: string }).text === 'undone')).toBe(false);
    expect(rows.host_alarm).toEqual([{ row_id: 0n, id: 0n, at: 1234n }]);
    // The writes of an object that ends before its commit are nowhere.
    sql.exec('DELETE FROM t');
    database.undo(new Error('restart'));
    const next = database.begin();
    next.sql.exec('INSERT INTO telemetry VALUES (200)');
    await database.synced();
    // A cleared database has its tables made again.
    const other = await one.database('%41b/responses.sqlite');
    other.storage.sql.exec('CREATE TABLE t (n)');
    other.storage.alarm.set(5);
    await other.database.synced();
    other.storage.clear(() => other.storage.sql.exec('CREATE TABLE again (n)'));
    other.storage.sql.exec('INSERT INTO again VALUES (1)');
    await other.database.synced();
    await two.follower!.catchUp();
    expect(two.dump()).toEqual(one.dump());
    expect(two.told.filter((line) => (line as { level: string }).level === 'warn')).toEqual([]);
  });

  it('becomes the owner, and the earlier one can store nothing any more', async () => {
    const one = await members.owner();
    const two = await members.member();
    await put(one, 1);
    await two.follow();
    expect(await two.own()).not.toBeNull();
    await put(two, 2);
    const { database, storage } = await one.database();
    storage.sql.exec('INSERT INTO t (n) VALUES (3)');
    let hasLeft = false;
    database.whenSynced(() => {
      hasLeft = true;
    });
    expect((await one.owner!.lost).message).toContain('another process has become the owner');
    expect(one.owner!.problem).not.toBeNull();
    await sleep(50);
    expect(hasLeft).toBe(false);
    expect(numbers(two)).toEqual([1, 2]);
    // Its files are ahead of the journal: they are moved aside, and made from the journal.
    one.kill();
    const next = members.again(one);
    await next.follow();
    expect(numbers(next)).toEqual([1, 2]);
    expect((await readdir(next.stateDir)).filter((name) => name.startsWith('data.before-'))).toHaveLength(1);
  });

  it('is one of several that try to become the owner', async () => {
    const one = await members.owner();
    await put(one, 1);
    const others = await Promise.all([members.member(), members.member(), members.member()]);
    for (const other of others) await other.follow();
    one.kill();
    const claims = await Promise.all(others.map((other) => other.own()));
    expect(claims.filter((claim) => claim !== null)).toHaveLength(1);
    const winner = others[claims.findIndex((claim) => claim !== null)]!;
    await put(winner, 2);
    for (const other of others.filter((one) => one !== winner)) {
      await other.follower!.catchUp();
      expect(other.dump()).toEqual(winner.dump());
    }
  });

  it('begins an empty journal with the others that find it empty', async () => {
    const all = await Promise.all([members.member(), members.member(), members.member()]);
    for (const one of all) await one.follow();
    const claims = await Promise.all(all.map((one) => one.own()));
    expect(claims.filter((claim) => claim !== null)).toHaveLength(1);
    const winner = all[claims.findIndex((claim) => claim !== null)]!;
    await put(winner, 1);
    for (const other of all.filter((one) => one !== winner)) {
      await other.follower!.catchUp();
      expect(other.dump()).toEqual(winner.dump());
      expect(other.follower!.id).toBe(winner.owner!.journalId);
    }
  });

  it('goes on where it was, after its end and after a kill', async () => {
    const one = await members.owner();
    const two = await members.member();
    await put(one, 1);
    await put(one, 1, 'b/queue.sqlite');
    await two.follow();
    await two.end();
    const three = members.again(two);
    await put(one, 2);
    members.server.entries.splice(0, 2);
    await three.follow();
    expect(three.dump()).toEqual(one.dump());
    // Killed: its place is older than its databases, which know what they have.
    await put(one, 3);
    await put(one, 2, 'b/queue.sqlite');
    await three.follower!.catchUp();
    const place = JSON.parse(await readFile(join(three.stateDir, 'journal-at.json'), 'utf8'));
    expect(place.seq).toBeLessThan(three.follower!.place.seq);
    const four = members.again(three);
    await put(one, 4);
    await four.follow();
    expect(four.dump()).toEqual(one.dump());
    expect(four.told.filter((line) => (line as { level: string }).level !== 'debug')).toEqual([]);
  });

  it('does nothing twice where a kill came between the databases of one entry', async () => {
    const one = await members.owner();
    await put(one, 1);
    await put(one, 1, 'b/queue.sqlite');
    const two = await members.member();
    await two.follow();
    await two.end();
    const place = await readFile(join(two.stateDir, 'journal-at.json'), 'utf8');
    for (const name of ['a/queue.sqlite', 'b/queue.sqlite']) {
      const { storage } = await one.database(name);
      storage.sql.exec('INSERT INTO t (text) VALUES (?)', 'by no key');
    }
    await (await one.database()).database.synced();
    // It has applied both, and its place says that it has neither.
    const three = members.again(two);
    await three.follow();
    await three.end();
    await writeFile(join(three.stateDir, 'journal-at.json'), place);
    const four = members.again(three);
    await four.follow();
    expect(four.dump()).toEqual(one.dump());
  });

  it('makes its files again from a snapshot where the entries in between are gone', async () => {
    const one = await members.owner();
    const two = await members.member();
    await put(one, 1);
    await two.follow();
    for (let n = 2; n < 20; n += 1) await put(one, n);
    const { seq } = await one.owner!.saveSnapshot();
    await put(one, 20);
    await one.journal.trim(seq);
    await two.follower!.catchUp();
    expect(two.dump()).toEqual(one.dump());
    const three = await members.member();
    await three.follow();
    expect(three.dump()).toEqual(one.dump());
    expect(await readFile(join(three.stateDir, 'file-key-secret'), 'utf8')).toBe(
      await readFile(join(one.stateDir, 'file-key-secret'), 'utf8'),
    );
  });

  it('has the secret of the owner without a snapshot', async () => {
    const one = await members.owner();
    const two = await members.member();
    await two.follow();
    expect(await readFile(join(two.stateDir, 'file-key-secret'), 'utf8')).toBe(
      await readFile(join(one.stateDir, 'file-key-secret'), 'utf8'),
    );
  });

  it('notices that the journal went on from other entries than it has', async () => {
    const one = await members.owner();
    const two = await members.member();
    await put(one, 1);
    await put(one, 2);
    await two.follow();
    expect(numbers(two)).toEqual([1, 2]);
    // The server fails over and has lost an entry, and a new owner has never seen it.
    one.kill();
    members.server.loseLast(1);
    const three = await members.member();
    await three.own();
    await put(three, 3);
    await put(three, 4);
    await two.follower!.catchUp();
    expect(numbers(two)).toEqual([1, 3, 4]);
    expect(two.dump()).toEqual(three.dump());
  });

  it('notices it too where a third owner begins with the number that it waits for', async () => {
    const one = await members.owner();
    const two = await members.member();
    for (const n of [1, 2, 3]) await put(one, n);
    await two.follow();
    expect(two.follower!.place).toEqual({ seq: 4, epoch: 1 });
    one.kill();
    members.server.loseLast(2);
    const three = await members.member();
    await three.own();
    await put(three, 4);
    three.kill();
    const four = await members.member();
    await four.own();
    expect(four.owner!.place).toEqual({ seq: 5, epoch: 3 });
    await put(four, 5);
    await two.follower!.catchUp();
    expect(numbers(two)).toEqual([1, 4, 5]);
  });

  it('gives the journal back what its server has lost, when the owner is gone too', async () => {
    const one = await members.owner();
    const two = await members.member();
    await two.follow();
    for (const n of [1, 2, 3]) await put(one, n);
    await two.follower!.catchUp();
    one.kill();
    members.server.loseLast(2);
    expect(await two.own()).not.toBeNull();
    await put(two, 4);
    // It has the entries of the time before too, should the server lose them again.
    members.server.loseLast(4);
    await put(two, 5);
    const three = await members.member();
    await three.follow();
    expect(numbers(three)).toEqual([1, 2, 3, 4, 5]);
    expect(three.dump()).toEqual(two.dump());
  });

  it('leaves the journal as it is when its server has lost more than is kept', async () => {
    const one = await members.owner();
    for (const n of [1, 2, 3]) await put(one, n);
    const two = await members.member();
    await two.follow();
    await two.end();
    const later = members.again(two);
    await later.follow();
    one.kill();
    members.server.loseLast(2);
    await expect(later.own()).rejects.toThrow('The journal ends at entry 2');
    expect((await one.journal.last()).seq).toBe(2);
  });

  it('gives up where an entry cannot be carried out on the newest snapshot either', async () => {
    const one = await members.owner();
    const two = await members.member();
    await put(one, 1);
    await two.follow();
    one.kill();
    const { seq, epoch } = await one.journal.last();
    const groups = [{ database: 'a/queue.sqlite', writes: [['INSERT INTO t (n) VALUES (?)', 1]] as const }];
    const body = encode({ kind: 'commits', stateVersion: 1, groups });
    await one.journal.append({ seq: seq + 1, epoch, body });
    await expect(two.follower!.catchUp()).rejects.toThrow(/cannot be carried out from its newest snapshot/);
  });

  it('refuses what a newer version wrote', async () => {
    const one = await members.owner();
    const two = await members.member();
    await put(one, 1);
    one.kill();
    const { seq, epoch } = await one.journal.last();
    const body = encode({ kind: 'commits', stateVersion: 1_000_000, groups: [] });
    await one.journal.append({ seq: seq + 1, epoch, body });
    await expect(two.follow()).rejects.toThrow('a newer version of worker-vllm');
  });
});
