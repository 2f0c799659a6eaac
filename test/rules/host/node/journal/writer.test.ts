import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { decode } from '../../../../../src/host/node/journal/entry.ts';
import type { Entry } from '../../../../../src/host/node/journal/journal.ts';
import { JournalWriter, type Loss } from '../../../../../src/host/node/journal/writer.ts';
import { JournalServer, type MemoryJournal } from '../../../../support/memory-journal.ts';
import { until } from '../../../../support/poll.ts';

const FIRST: Entry = { seq: 1, epoch: 7, body: Uint8Array.of(1) };

let server: JournalServer;
let journal: MemoryJournal;
let writer: JournalWriter;
let losses: Loss[];
let stored: string[];
/** The time of the writer's clock, ms. */
let now: number;
let timesStuck: number;

beforeEach(async () => {
  server = new JournalServer();
  journal = server.connect();
  losses = [];
  stored = [];
  now = 0;
  timesStuck = 0;
  await journal.append(FIRST);
  writer = new JournalWriter(journal, FIRST, {
    lost: (loss) => losses.push(loss),
    stuck: () => {
      timesStuck += 1;
    },
    pause: () => sleep(1),
    soon: setImmediate,
    now: () => now,
    log: () => {},
  });
});

/** Commits one statement in a database, and notes when it is stored. */
function commit(name: string, database = 'a/queue.sqlite', value = name): void {
  const commits = writer.of(database);
  commits.committed([['INSERT INTO t VALUES (?)', value]]);
  commits.whenStored(() => stored.push(name));
}

/** The values of the commits in each entry. */
function entries(): unknown[] {
  return server.entries.slice(1).map(({ body }) => {
    const content = decode(body);
    if (content.kind !== 'commits') return content.kind;
    return content.groups.flatMap(({ writes }) => writes.map(([, value]) => value));
  });
}

describe('the writer of a journal', () => {
  it('stores the commits of one turn in one entry, in their order, over all databases', async () => {
    commit('one', 'a/queue.sqlite');
    commit('two', 'a/fleet.sqlite');
    commit('three', 'a/queue.sqlite');
    expect(stored).toEqual([]);
    await until(() => stored.length === 3, 'all is stored');
    expect(stored).toEqual(['one', 'two', 'three']);
    expect(entries()).toEqual([['one', 'two', 'three']]);
    expect(server.entries.map(({ seq, epoch }) => [seq, epoch])).toEqual([
      [1, 7],
      [2, 7],
    ]);
  });

  it('gathers what is committed while an entry is on its way', async () => {
    journal.faults.takesMs = () => 20;
    commit('one');
    await sleep(5);
    commit('two');
    commit('three');
    await until(() => stored.length === 3, 'all is stored');
    expect(entries()).toEqual([['one'], ['two', 'three']]);
  });

  it('calls back at once when all is stored', async () => {
    commit('one');
    await until(() => stored.length === 1, 'it is stored');
    let isCalled = false;
    writer.of('a/queue.sqlite').whenStored(() => {
      isCalled = true;
    });
    expect(isCalled).toBe(true);
  });

  it('makes no entry larger than need be', async () => {
    const large = 'x'.repeat(700_000);
    for (const name of ['one', 'two', 'three']) commit(name, 'a/queue.sqlite', large);
    await until(() => stored.length === 3, 'all is stored');
    expect(entries().map((values) => (values as unknown[]).length)).toEqual([2, 1]);
  });

  it('counts an append whose answer was lost as its own', async () => {
    const faults = ['after', 'before', 'before', 'after'] as const;
    let next = 0;
    journal.faults.appendFault = () => faults[next++] ?? null;
    commit('one');
    await until(() => stored.length === 1, 'it is stored');
    commit('two');
    await until(() => stored.length === 2, 'it is stored');
    expect(entries()).toEqual([['one'], ['two']]);
    expect(losses).toEqual([]);
  });

  it('waits while the server is away, and stores everything after that', async () => {
    journal.faults.isAway = true;
    commit('one');
    await until(() => writer.isFailing, 'an append has failed');
    commit('two');
    expect(stored).toEqual([]);
    journal.faults.isAway = false;
    await until(() => stored.length === 2, 'all is stored');
    expect(entries().flat()).toEqual(['one', 'two']);
  });

  it('is stuck when an entry has waited for three seconds, until it is stored', async () => {
    let tries = 0;
    journal.faults.appendFault = () => {
      tries += 1;
      return 'before';
    };
    const afterMore = async () => {
      const before = tries;
      await until(() => tries > before + 1, 'it tries again');
    };
    commit('one');
    await afterMore();
    now = 2999;
    await afterMore();
    expect([writer.isStuck, timesStuck]).toEqual([false, 0]);
    now = 3000;
    await afterMore();
    expect([writer.isStuck, timesStuck]).toEqual([true, 1]);
    journal.faults.appendFault = () => null;
    await until(() => stored.length === 1, 'it is stored');
    expect(writer.isStuck).toBe(false);
  });

  it('stores nothing once another owner has its number', async () => {
    await server.connect().append({ seq: 2, epoch: 8, body: Uint8Array.of(2) });
    commit('one');
    await until(() => losses.length > 0, 'the loss is told');
    commit('two');
    await sleep(20);
    expect(losses).toEqual(['replaced']);
    expect(stored).toEqual([]);
    expect(server.entries).toHaveLength(2);
  });

  it('notices another owner even when the answer to its own append was lost', async () => {
    journal.faults.appendFault = () => 'before';
    commit('one');
    await until(() => writer.isFailing, 'an append has failed');
    await server.connect().append({ seq: 2, epoch: 8, body: Uint8Array.of(2) });
    journal.faults.appendFault = () => null;
    await until(() => losses.length > 0, 'the loss is told');
    expect(stored).toEqual([]);
  });

  it('appends again what the server has lost', async () => {
    for (const name of ['one', 'two', 'three']) {
      commit(name);
      await until(() => stored.includes(name), 'it is stored');
    }
    server.loseLast(2);
    commit('four');
    await until(() => stored.length === 4, 'all is stored');
    expect(entries()).toEqual([['one'], ['two'], ['three'], ['four']]);
    server.loseLast(5);
    commit('five');
    await until(() => stored.length === 5, 'all is stored');
    expect(entries()).toEqual([['one'], ['two'], ['three'], ['four'], ['five']]);
    expect(server.entries[0]).toEqual(FIRST);
    expect(losses).toEqual([]);
  });

  it('does not append again what another owner has replaced', async () => {
    for (const name of ['one', 'two']) {
      commit(name);
      await until(() => stored.includes(name), 'it is stored');
    }
    server.loseLast(2);
    await server.connect().append({ seq: 2, epoch: 8, body: Uint8Array.of(2) });
    commit('three');
    await until(() => losses.length > 0, 'the loss is told');
    expect(losses).toEqual(['replaced']);
    expect(server.entries).toHaveLength(2);
  });

  it('appends nothing on top of another owner who begins while it appends again', async () => {
    for (const name of ['one', 'two']) {
      commit(name);
      await until(() => stored.includes(name), 'it is stored');
    }
    server.loseLast(2);
    const { last } = journal;
    journal.last = async () => {
      const place = await last.call(journal);
      if (place.seq === 1) await server.connect().append({ seq: 2, epoch: 8, body: Uint8Array.of(2) });
      return place;
    };
    commit('three');
    await until(() => losses.length > 0, 'the loss is told');
    expect(losses).toEqual(['replaced']);
    expect(server.entries).toHaveLength(2);
  });

  it('gives up when the server has lost more than this process remembers', async () => {
    commit('one');
    await until(() => stored.length === 1, 'it is stored');
    server.entries = [];
    server.snapshots = [];
    const later = new JournalWriter(
      journal,
      { seq: 9, epoch: 7, body: Uint8Array.of(1) },
      {
        lost: (loss) => losses.push(loss),
        stuck: () => {},
        pause: () => sleep(1),
        soon: setImmediate,
        now: () => performance.now(),
        log: () => {},
      },
    );
    later.of('a/queue.sqlite').committed([['INSERT INTO t VALUES (1)']]);
    await until(() => losses.length > 0, 'the loss is told');
    expect(losses).toEqual(['entries_lost']);
    expect(server.entries).toEqual([]);
  });

  it('cuts an entry after the last commit', async () => {
    journal.faults.takesMs = () => 10;
    commit('one');
    await sleep(2);
    commit('two');
    const cut = writer.cut();
    commit('three');
    expect(await cut).toBe(3);
    await until(() => stored.length === 3, 'all is stored');
    expect(entries()).toEqual([['one'], ['two'], ['three']]);
    expect(await writer.cut()).toBe(4);
  });

  it('says at its end that it has ended', async () => {
    commit('one');
    await writer.end();
    expect(stored).toEqual(['one']);
    expect(entries()).toEqual([['one'], 'closed']);
  });
});
