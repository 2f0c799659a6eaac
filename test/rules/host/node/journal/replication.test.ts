import { access, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { encode } from '../../../../../src/host/node/journal/entry.ts';
import { FileJournal } from '../../../../../src/host/node/journal/file.ts';
import { dumpDatabases } from '../../../../support/database-dump.ts';
import { JournalMember } from '../../../../support/journal-member.ts';
import { JournalServer, type MemoryJournal } from '../../../../support/memory-journal.ts';
import { until } from '../../../../support/poll.ts';

let server: JournalServer;
let members: JournalMember[];

beforeEach(() => {
  server = new JournalServer();
  members = [];
});

afterEach(async () => {
  for (const member of members) {
    await member.end();
    await member.remove();
  }
});

async function member(): Promise<JournalMember> {
  const made = await JournalMember.make(server.connect());
  members.push(made);
  return made;
}

/** Another process on the folder of one that was killed. */
function again(before: JournalMember): JournalMember {
  const made = before.again(server.connect());
  members.splice(members.indexOf(before), 1, made);
  return made;
}

async function owner(): Promise<JournalMember> {
  const made = await member();
  expect(await made.own()).not.toBeNull();
  return made;
}

async function put(of: JournalMember, n: number, name?: string): Promise<void> {
  const { database, storage } = await of.database(name);
  storage.sql.exec('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, text TEXT)');
  storage.sql.exec('INSERT INTO t (n) VALUES (?)', n);
  await database.synced();
}

function numbers(of: JournalMember, name = 'a/queue.sqlite'): unknown[] {
  return of.dump()[name]!.t!.map((row) => Number((row as { n: bigint }).n));
}

describe('a follower', () => {
  it('has the same rows as the owner, whatever it writes', async () => {
    const one = await owner();
    const two = await member();
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
    const one = await owner();
    const two = await member();
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
    const next = again(one);
    await next.follow();
    expect(numbers(next)).toEqual([1, 2]);
    expect((await readdir(next.stateDir)).filter((name) => name.startsWith('data.before-'))).toHaveLength(1);
  });

  it('is one of several that try to become the owner', async () => {
    const one = await owner();
    await put(one, 1);
    const others = await Promise.all([member(), member(), member()]);
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
    const all = await Promise.all([member(), member(), member()]);
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
    const one = await owner();
    const two = await member();
    await put(one, 1);
    await put(one, 1, 'b/queue.sqlite');
    await two.follow();
    await two.end();
    const three = again(two);
    await put(one, 2);
    server.entries.splice(0, 2);
    await three.follow();
    expect(three.dump()).toEqual(one.dump());
    // Killed: its place is older than its databases, which know what they have.
    await put(one, 3);
    await put(one, 2, 'b/queue.sqlite');
    await three.follower!.catchUp();
    const place = JSON.parse(await readFile(join(three.stateDir, 'journal-at.json'), 'utf8'));
    expect(place.seq).toBeLessThan(three.follower!.place.seq);
    const four = again(three);
    await put(one, 4);
    await four.follow();
    expect(four.dump()).toEqual(one.dump());
    expect(four.told.filter((line) => (line as { level: string }).level !== 'debug')).toEqual([]);
  });

  it('does nothing twice where a kill came between the databases of one entry', async () => {
    const one = await owner();
    await put(one, 1);
    await put(one, 1, 'b/queue.sqlite');
    const two = await member();
    await two.follow();
    await two.end();
    const place = await readFile(join(two.stateDir, 'journal-at.json'), 'utf8');
    for (const name of ['a/queue.sqlite', 'b/queue.sqlite']) {
      const { storage } = await one.database(name);
      storage.sql.exec('INSERT INTO t (text) VALUES (?)', 'by no key');
    }
    await (await one.database()).database.synced();
    // It has applied both, and its place says that it has neither.
    const three = again(two);
    await three.follow();
    await three.end();
    await writeFile(join(three.stateDir, 'journal-at.json'), place);
    const four = again(three);
    await four.follow();
    expect(four.dump()).toEqual(one.dump());
  });

  it('makes its files again from a snapshot where the entries in between are gone', async () => {
    const one = await owner();
    const two = await member();
    await put(one, 1);
    await two.follow();
    for (let n = 2; n < 20; n += 1) await put(one, n);
    const { seq } = await one.owner!.saveSnapshot();
    await put(one, 20);
    await one.journal.trim(seq);
    await two.follower!.catchUp();
    expect(two.dump()).toEqual(one.dump());
    const three = await member();
    await three.follow();
    expect(three.dump()).toEqual(one.dump());
    expect(await readFile(join(three.stateDir, 'file-key-secret'), 'utf8')).toBe(
      await readFile(join(one.stateDir, 'file-key-secret'), 'utf8'),
    );
  });

  it('notices that the journal went on from other entries than it has', async () => {
    const one = await owner();
    const two = await member();
    await put(one, 1);
    await put(one, 2);
    await two.follow();
    expect(numbers(two)).toEqual([1, 2]);
    // The server fails over and has lost an entry, and a new owner has never seen it.
    one.kill();
    server.loseLast(1);
    const three = await member();
    await three.own();
    await put(three, 3);
    await put(three, 4);
    await two.follower!.catchUp();
    expect(numbers(two)).toEqual([1, 3, 4]);
    expect(two.dump()).toEqual(three.dump());
  });

  it('refuses what a newer version wrote', async () => {
    const one = await owner();
    const two = await member();
    await put(one, 1);
    one.kill();
    const { seq, epoch } = await one.journal.last();
    const body = encode({ kind: 'commits', stateVersion: 1_000_000, groups: [] });
    await one.journal.append({ seq: seq + 1, epoch, body });
    await expect(two.follow()).rejects.toThrow('a newer version of worker-vllm');
  });
});

describe('snapshots', () => {
  it('of an owner that writes all the time are those of one entry', async () => {
    const one = await owner();
    (one.journal as MemoryJournal).faults.takesMs = () => 3;
    let isOver = false;
    const write = async (name: string) => {
      for (let n = 1; !isOver; n += 1) {
        const { storage } = await one.database(name);
        storage.sql.exec('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)');
        storage.sql.exec('INSERT INTO t (n) VALUES (?)', n);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const writers = ['a/queue.sqlite', 'a/fleet.sqlite', 'b/queue.sqlite'].map(write);
    for (let time = 0; time < 5; time += 1) {
      const { seq } = await one.owner!.saveSnapshot();
      const two = await member();
      await two.follow();
      // The same rows as those of a follower that has applied every entry up to there.
      const three = await member();
      const snapshots = server.snapshots;
      server.snapshots = [];
      await three.follow();
      server.snapshots = snapshots;
      await until(() => two.follower!.place.seq > seq && three.follower!.place.seq > seq, 'both are further');
      const place = Math.max(two.follower!.place.seq, three.follower!.place.seq);
      if (time < 4) await one.journal.trim(0);
      expect(place).toBeGreaterThan(seq);
    }
    isOver = true;
    await Promise.all(writers);
    for (const name of ['a/queue.sqlite', 'a/fleet.sqlite', 'b/queue.sqlite'])
      await (await one.database(name)).database.synced();
    const followers = members.filter((other) => other !== one);
    for (const other of followers) {
      await other.follower!.catchUp();
      expect(other.dump()).toEqual(one.dump());
    }
  });

  it('begin a journal with the state that is there', async () => {
    const before = await member();
    await put(before, 1);
    await put(before, 2, 'b/fleet.sqlite');
    const rows = before.dump();
    await before.end();
    const one = again(before);
    await one.own();
    expect(server.snapshots.map(({ seq }) => seq)).toEqual([0]);
    const two = await member();
    await two.follow();
    expect(two.dump()).toEqual(rows);
    await put(one, 3);
    await two.follower!.catchUp();
    expect(two.dump()).toEqual(one.dump());
  });

  it('are taken by a follower while it goes on', async () => {
    const one = await owner();
    const two = await member();
    await put(one, 1);
    await two.follow();
    const saving = two.follower!.saveSnapshot();
    await put(one, 2);
    await two.follower!.catchUp();
    const { seq } = await saving;
    expect(server.snapshots.map((snapshot) => snapshot.seq)).toEqual([seq]);
    await one.journal.trim(seq);
    const three = await member();
    await three.follow();
    expect(three.dump()).toEqual(one.dump());
  });
});

describe('an owner', () => {
  it('goes on with its files after an end in order', async () => {
    const one = await owner();
    await put(one, 1);
    await one.end();
    const rows = dumpDatabases(one.dataDir);
    const two = again(one);
    await two.own();
    expect(two.dump()).toEqual(rows);
    await put(two, 2);
    expect((await readdir(two.stateDir)).filter((name) => name.startsWith('data.'))).toEqual([]);
    const three = await member();
    await three.follow();
    expect(three.dump()).toEqual(two.dump());
  });

  it('applies what others have written since its end', async () => {
    const one = await owner();
    await put(one, 1);
    await one.end();
    const two = await member();
    await two.own();
    await put(two, 2);
    await two.end();
    const three = again(one);
    await three.own();
    await put(three, 3);
    expect(numbers(three)).toEqual([1, 2, 3]);
  });

  it('drops what it had not stored when it was killed', async () => {
    const one = await owner();
    await put(one, 1);
    (one.journal as MemoryJournal).faults.isAway = true;
    const { database, storage } = await one.database();
    storage.sql.exec('INSERT INTO t (n) VALUES (2)');
    database.commitNow();
    expect(numbers(one)).toEqual([1, 2]);
    one.kill();
    const two = again(one);
    await two.own();
    expect(numbers(two)).toEqual([1]);
    await put(two, 2);
  });

  it('keeps one folder of what was moved aside', async () => {
    let one = await owner();
    await put(one, 1);
    for (let time = 0; time < 3; time += 1) {
      one.kill();
      one = again(one);
      await one.own();
      await sleep(2);
    }
    expect(numbers(one)).toEqual([1]);
    expect((await readdir(one.stateDir)).filter((name) => name.startsWith('data.before-'))).toHaveLength(1);
  });

  it('acknowledges nothing while the journal is away, and everything after that', async () => {
    const one = await owner();
    await put(one, 1);
    const { faults } = one.journal as MemoryJournal;
    faults.isAway = true;
    const { database, storage } = await one.database();
    storage.sql.exec('INSERT INTO t (n) VALUES (2)');
    const left: string[] = [];
    database.whenSynced(() => left.push('two'));
    await until(
      () => one.told.some((line) => JSON.stringify(line).includes('cannot be reached')),
      'it says so',
    );
    expect(left).toEqual([]);
    faults.isAway = false;
    await until(() => left.length === 1, 'it is acknowledged');
    const two = await member();
    await two.follow();
    expect(numbers(two)).toEqual([1, 2]);
  });
});

describe('an owner whose lease another process takes', () => {
  it('ends once that one is the owner, however long its entry takes', async () => {
    const one = await owner();
    const two = await member();
    await two.follow();
    const { last } = one.journal;
    let looks = 0;
    one.journal.last = () => {
      looks += 1;
      return last.call(one.journal);
    };
    await two.journal.renewLease({ epoch: 2, address: 'http://two' }, 60_000);
    await until(() => looks > 1, 'the owner looks for its follower again');
    await two.own();
    expect((await one.owner!.lost).message).toContain('another process has become the owner');
  });

  it('ends if that one has ended before it became the owner', async () => {
    const one = await owner();
    await (await member()).journal.renewLease({ epoch: 2, address: 'http://two' }, 0);
    expect((await one.owner!.lost).message).toContain('ended before it became the owner');
    const two = again(one);
    expect(await two.own()).not.toBeNull();
  });
});

describe('a state folder and a journal that do not belong together', () => {
  it('are refused: a folder that follows another journal', async () => {
    const one = await owner();
    await put(one, 1);
    await one.end();
    server = new JournalServer();
    const other = await owner();
    await put(other, 1);
    await expect(again(one).follow()).rejects.toThrow('follows another journal');
    expect(numbers(one)).toEqual([1]);
  });

  it('are refused: the state of a queue, and a journal with entries', async () => {
    const one = await owner();
    await put(one, 1);
    const two = await member();
    await put(two, 2);
    await two.end();
    await expect(again(two).follow()).rejects.toThrow('holds the state of a queue without this journal');
    expect(numbers(two)).toEqual([2]);
  });

  it('are refused: a journal that ends before the folder', async () => {
    const one = await owner();
    await put(one, 1);
    await one.end();
    server.loseLast(1);
    await expect(again(one).follow()).rejects.toThrow('ends at entry 2, and the state folder');
    server.entries = [];
    await expect(again(one).follow()).rejects.toThrow('ends at entry 0, and the state folder');
    expect(numbers(one)).toEqual([1]);
  });

  it('are refused: an empty journal, and the folder of an owner that was killed', async () => {
    const one = await owner();
    await put(one, 1);
    one.kill();
    server.entries = [];
    await expect(again(one).follow()).rejects.toThrow('The journal is empty');
    expect(numbers(one)).toEqual([1]);
  });
});

describe('a journal in a folder', () => {
  it('serves an owner and a follower', async () => {
    const place = await JournalMember.make(server.connect());
    const connect = async () => {
      const journal = new FileJournal(join(place.stateDir, 'journal'));
      await journal.open();
      return journal;
    };
    const one = await JournalMember.make(await connect());
    const two = await JournalMember.make(await connect());
    members.push(one, two, place);
    await one.own();
    for (let n = 1; n <= 20; n += 1) await put(one, n);
    await one.owner!.saveSnapshot();
    await put(one, 21);
    await two.follow();
    expect(two.dump()).toEqual(one.dump());
    await access(join(place.stateDir, 'journal', 'entries', '0000000000000002'));
  });
});
