import { access, copyFile, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { FileJournal } from '../../../../../src/host/node/journal/file.ts';
import { dumpDatabases } from '../../../../support/database-dump.ts';
import { JournalMember } from '../../../../support/journal-member.ts';
import { JournalMembers, numbers, put } from '../../../../support/journal-members.ts';
import { JournalServer, type MemoryJournal } from '../../../../support/memory-journal.ts';
import { until } from '../../../../support/poll.ts';

const members = new JournalMembers();

describe('snapshots', () => {
  it('of an owner that writes all the time are those of one entry', async () => {
    const one = await members.owner();
    (one.journal as MemoryJournal).faults.takesMs = () => 3;
    let isOver = false;
    const names = ['a/queue.sqlite', 'a/fleet.sqlite', 'b/queue.sqlite'];
    const write = async (name: string) => {
      const { storage } = await one.database(name);
      storage.sql.exec('CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY)');
      for (let n = 1; !isOver; n += 1) {
        storage.sql.exec('INSERT INTO t (n) VALUES (?)', n);
        await sleep(1);
      }
    };
    const writers = names.map(write);
    for (let time = 0; time < 4; time += 1) {
      const { seq } = await one.owner!.saveSnapshot();
      const two = await members.member();
      await two.follow();
      // A row that the snapshot had beyond its entry would now come twice.
      await until(async () => {
        await two.follower!.catchUp();
        return two.follower!.place.seq > seq;
      }, 'the follower is further');
    }
    isOver = true;
    await Promise.all(writers);
    for (const name of names) await (await one.database(name)).database.synced();
    for (const other of members.all.slice(1)) {
      await other.follower!.catchUp();
      expect(other.dump()).toEqual(one.dump());
      expect(other.told.filter((line) => (line as { level: string }).level === 'warn')).toEqual([]);
    }
  });

  it('begin a journal with the state that is there', async () => {
    const before = await members.member();
    await put(before, 1);
    await put(before, 2, 'b/fleet.sqlite');
    const rows = before.dump();
    await before.end();
    const one = members.again(before);
    await one.own();
    expect(members.server.snapshots.map(({ seq }) => seq)).toEqual([0]);
    const two = await members.member();
    await two.follow();
    expect(two.dump()).toEqual(rows);
    await put(one, 3);
    await two.follower!.catchUp();
    expect(two.dump()).toEqual(one.dump());
  });

  it('of a queue that begins the journal are those of a process that opened it while it was empty', async () => {
    const before = await members.member();
    await put(before, 1);
    await before.end();
    const [early, late] = [await members.member(), await members.member()];
    await early.follow();
    await late.follow();
    const one = members.again(before);
    await one.follow();
    // It is faster than the queue that has the data, and becomes the owner of that data.
    expect(await early.own()).not.toBeNull();
    expect(early.dump()).toEqual(before.dump());
    await put(early, 2);
    for (const other of [one, late]) {
      await other.follower!.catchUp();
      expect(other.dump()).toEqual(early.dump());
    }
  });

  it('of a queue that did not become the owner are nothing to the one that did', async () => {
    const one = await members.owner();
    await put(one, 1);
    const other = await members.member();
    const elsewhere = new JournalServer();
    await put(other, 7);
    await other.end();
    const begun = other.again(elsewhere.connect());
    await begun.follow();
    await begun.end();
    members.server.snapshots = elsewhere.snapshots;
    const two = await members.member();
    await two.follow();
    expect(two.dump()).toEqual(one.dump());
    members.server.snapshots = elsewhere.snapshots.map((snapshot) => ({ ...snapshot, seq: 1 }));
    const three = await members.member();
    await expect(three.follow()).rejects.toThrow('two queues have used one journal');
  });

  it('stay when two queues with data begin one journal at once, and the second is refused', async () => {
    const [one, two] = [await members.member(), await members.member()];
    for (const [member, n] of [[one, 1] as const, [two, 2] as const]) {
      await put(member, n);
      await member.end();
    }
    const [first, second] = [members.again(one), members.again(two)];
    const { saveSnapshot } = second.journal;
    second.journal.saveSnapshot = async (snapshot) => {
      await first.follow();
      await saveSnapshot.call(second.journal, snapshot);
    };
    await expect(second.follow()).rejects.toThrow('two queues have used one journal');
    await first.own();
    const follower = await members.member();
    await follower.follow();
    expect(numbers(follower)).toEqual([1]);
    await expect(members.again(second).follow()).rejects.toThrow('follows another journal');
    expect(numbers(second)).toEqual([2]);
  });

  it('are taken by a follower while it goes on', async () => {
    const one = await members.owner();
    const two = await members.member();
    await put(one, 1);
    await two.follow();
    const saving = two.follower!.saveSnapshot();
    await put(one, 2);
    await two.follower!.catchUp();
    const { seq } = await saving;
    expect(members.server.snapshots.map((snapshot) => snapshot.seq)).toEqual([seq]);
    await one.journal.trim(seq);
    const three = await members.member();
    await three.follow();
    expect(three.dump()).toEqual(one.dump());
  });
});

describe('a journal that is begun with a folder that has followed another one', () => {
  it('has all that is written from then on', async () => {
    const one = await members.owner();
    for (const n of [1, 2, 3, 4, 5]) await put(one, n);
    const two = await members.member();
    await two.follow();
    one.kill();
    await two.own();
    await put(two, 6);
    await two.end();
    await rm(join(two.stateDir, 'journal-at.json'));
    members.server = new JournalServer();
    const three = members.again(two);
    await three.own();
    await put(three, 7);
    three.kill();
    // Its files are made from the journal, as those of every follower.
    const four = members.again(three);
    await four.own();
    expect(numbers(four)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it('goes on after a kill during its first snapshot', async () => {
    const before = await members.member();
    await put(before, 1);
    await before.end();
    const one = members.again(before);
    const { saveSnapshot } = one.journal;
    one.journal.saveSnapshot = async (snapshot) => {
      await saveSnapshot.call(one.journal, snapshot);
      throw new Error('killed');
    };
    await expect(one.follow()).rejects.toThrow('killed');
    const two = members.again(one);
    await two.own();
    expect(numbers(two)).toEqual([1]);
  });

  it('leaves out what an operator has put beside the databases', async () => {
    const before = await members.member();
    await put(before, 1);
    await before.end();
    await copyFile(join(before.dataDir, 'a/queue.sqlite'), join(before.dataDir, 'a/queue copy.sqlite'));
    const one = members.again(before);
    await one.own();
    const two = await members.member();
    await two.follow();
    expect(numbers(two)).toEqual([1]);
  });
});

describe('an owner', () => {
  it('goes on with its files after an end in order', async () => {
    const one = await members.owner();
    await put(one, 1);
    await one.end();
    const rows = dumpDatabases(one.dataDir);
    const two = members.again(one);
    await two.own();
    expect(two.dump()).toEqual(rows);
    await put(two, 2);
    expect((await readdir(two.stateDir)).filter((name) => name.startsWith('data.'))).toEqual([]);
    const three = await members.member();
    await three.follow();
    expect(three.dump()).toEqual(two.dump());
  });

  it('waits at its end for databases that take long to close', async () => {
    const one = await members.owner();
    await put(one, 1);
    await one.owner!.end(sleep(5500));
    const place = JSON.parse(await readFile(join(one.stateDir, 'journal-at.json'), 'utf8'));
    expect(place).toMatchObject({ seq: 3, mayBeAhead: false });
    one.kill();
  });

  it('applies what others have written since its end', async () => {
    const one = await members.owner();
    await put(one, 1);
    await one.end();
    const two = await members.member();
    await two.own();
    await put(two, 2);
    await two.end();
    const three = members.again(one);
    await three.own();
    await put(three, 3);
    expect(numbers(three)).toEqual([1, 2, 3]);
  });

  it('drops what it had not stored when it was killed', async () => {
    const one = await members.owner();
    await put(one, 1);
    (one.journal as MemoryJournal).faults.isAway = true;
    const { database, storage } = await one.database();
    storage.sql.exec('INSERT INTO t (n) VALUES (2)');
    database.commitNow();
    expect(numbers(one)).toEqual([1, 2]);
    one.kill();
    const two = members.again(one);
    await two.own();
    expect(numbers(two)).toEqual([1]);
    await put(two, 2);
  });

  it('keeps one folder of what was moved aside', async () => {
    let one = await members.owner();
    await put(one, 1);
    for (let time = 0; time < 3; time += 1) {
      one.kill();
      one = members.again(one);
      await one.own();
      await sleep(2);
    }
    expect(numbers(one)).toEqual([1]);
    expect((await readdir(one.stateDir)).filter((name) => name.startsWith('data.before-'))).toHaveLength(1);
  });

  it('acknowledges nothing while the journal is away, and everything after that', async () => {
    const one = await members.owner();
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
    const two = await members.member();
    await two.follow();
    expect(numbers(two)).toEqual([1, 2]);
  });

  it('refuses calls when the journal renews its lease and stores nothing else, until it does', async () => {
    const one = await members.owner();
    await put(one, 1);
    const { faults } = one.journal as MemoryJournal;
    faults.appendFault = () => 'before';
    const { storage } = await one.database();
    const paused: Error[] = [];
    one.owner!.onPause((error) => paused.push(error));
    storage.sql.exec('INSERT INTO t (n) VALUES (2)');
    await until(() => paused.length > 0, 'it refuses calls');
    expect(one.owner!.problem?.message).toContain('JOURNAL_UNREACHABLE');
    faults.appendFault = () => null;
    await until(() => one.owner!.problem === null, 'it answers calls again');
  });
});

describe('an owner whose lease another process takes', () => {
  it('ends once that one is the owner, however long its entry takes', async () => {
    const one = await members.owner();
    const two = await members.member();
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
    const one = await members.owner();
    await (await members.member()).journal.renewLease({ epoch: 2, address: 'http://two' }, 0);
    expect((await one.owner!.lost).message).toContain('ended before it became the owner');
    const two = members.again(one);
    expect(await two.own()).not.toBeNull();
  });
});

describe('a state folder and a journal that do not belong together', () => {
  it('are refused: a folder that follows another journal', async () => {
    const one = await members.owner();
    await put(one, 1);
    await one.end();
    members.server = new JournalServer();
    const other = await members.owner();
    await put(other, 1);
    await expect(members.again(one).follow()).rejects.toThrow('follows another journal');
    expect(numbers(one)).toEqual([1]);
  });

  it('are refused: the state of a queue, and a journal with entries', async () => {
    const one = await members.owner();
    await put(one, 1);
    const two = await members.member();
    await put(two, 2);
    await two.end();
    await expect(members.again(two).follow()).rejects.toThrow(
      'holds the state of a queue without this journal',
    );
    expect(numbers(two)).toEqual([2]);
  });

  it('are refused: a journal that ends before the folder', async () => {
    const one = await members.owner();
    await put(one, 1);
    await one.end();
    members.server.loseLast(1);
    await expect(members.again(one).follow()).rejects.toThrow('ends at entry 2, and the state folder');
    members.server.entries = [];
    await expect(members.again(one).follow()).rejects.toThrow('ends at entry 0, and the state folder');
    expect(numbers(one)).toEqual([1]);
  });

  it('are refused: an empty journal, and the folder of an owner that was killed', async () => {
    const one = await members.owner();
    await put(one, 1);
    one.kill();
    members.server.entries = [];
    await expect(members.again(one).follow()).rejects.toThrow('The journal is empty');
    expect(numbers(one)).toEqual([1]);
  });
});

describe('a journal in a folder', () => {
  it('serves an owner and a follower', async () => {
    const place = await JournalMember.make(members.server.connect());
    const connect = async () => {
      const journal = new FileJournal(join(place.stateDir, 'journal'));
      await journal.open();
      return journal;
    };
    const one = await JournalMember.make(await connect());
    const two = await JournalMember.make(await connect());
    members.all.push(one, two, place);
    await one.own();
    for (let n = 1; n <= 20; n += 1) await put(one, n);
    await one.owner!.saveSnapshot();
    await put(one, 21);
    await two.follow();
    expect(two.dump()).toEqual(one.dump());
    await access(join(place.stateDir, 'journal', 'entries', '0000000000000002'));
  });
});
