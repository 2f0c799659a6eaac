import { statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { SqlValue } from '../../../../../src/durable/ports.ts';
import { Statements } from '../../../../../src/host/node/storage/statements.ts';
import { until } from '../../../../support/poll.ts';
import { ADatabase } from './a-database.ts';

const a = new ADatabase();

describe('statements', () => {
  it('answer plain objects, with bytes as bytes and large integers as the nearest number', () => {
    const { sql } = a.storage;
    sql.exec('INSERT INTO t VALUES (?2, ?1, ?3)', 'x', 1, new Uint8Array([1, 2]));
    expect(sql.exec('SELECT * FROM t')).toStrictEqual([{ n: 1, text: 'x', bytes: new Uint8Array([1, 2]) }]);
    const large = 'SELECT 9007199254740993 AS large, 2 AS small';
    for (let time = 0; time < 2; time += 1) {
      expect(sql.exec(large)).toStrictEqual([{ large: 9007199254740992, small: 2 }]);
    }
    const written = sql.exec(
      'INSERT INTO t (n, text) VALUES (9007199254740993, NULL) RETURNING n, text, 2 AS two',
    );
    expect(written).toStrictEqual([{ n: 9007199254740992, text: null, two: 2 }]);
    expect(a.all()).toHaveLength(2);
  });

  it('take a list of values for numbered bindings', () => {
    const database = new DatabaseSync(':memory:');
    const statements = new Statements(database);
    const ask = (query: string, ...bindings: SqlValue[]) => statements.run(query, bindings, () => {});
    for (let time = 0; time < 2; time += 1) {
      expect(ask('SELECT ?2 AS a, ?1 AS b, ?2 AS c', 1, 'x')).toEqual([{ a: 'x', b: 1, c: 'x' }]);
      expect(ask('SELECT ? AS a, ?2 AS b, ?3 IS NULL AS c', 1, 2, null)).toEqual([{ a: 1, b: 2, c: 1 }]);
    }
    database.close();
  });

  it('begin no transaction where they only read, also with a table of their own', () => {
    const before = a.database.written;
    const three = 'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)';
    expect(a.storage.sql.exec(`${three} SELECT i FROM n`)).toEqual([{ i: 1 }, { i: 2 }, { i: 3 }]);
    expect(a.database.written).toBe(before);
    a.storage.sql.exec(`${three} INSERT INTO t (n) SELECT i FROM n`);
    expect(a.database.written).toBe(before + 1);
    expect(a.all()).toEqual([1, 2, 3]);
  });

  it('are prepared again after others have taken their place', () => {
    for (let n = 0; n < 600; n += 1) expect(a.storage.sql.exec(`SELECT ${n} AS n`)).toEqual([{ n }]);
    expect(a.storage.sql.exec('SELECT 0 AS n')).toEqual([{ n: 0 }]);
  });

  it('say what is wrong with them, with the code of SQLite', () => {
    a.put(1);
    expect(() => a.put(1)).toThrow('UNIQUE constraint failed: t.n: SQLITE_CONSTRAINT');
    expect(() => a.storage.sql.exec('SELECT x FROM t')).toThrow('no such column: x: SQLITE_ERROR');
    expect(a.all()).toEqual([1]);
  });
});

describe('a group', () => {
  it('is what one turn and all that waits in it write: one commit', async () => {
    a.put(1);
    await Promise.resolve();
    a.put(2);
    expect(a.committed()).toEqual([]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(a.committed()).toEqual([1, 2]);
  });

  it('gathers while a sync is on its way', async () => {
    a.put(1);
    a.database.commitNow();
    expect(a.committed()).toEqual([1]);
    const order: string[] = [];
    a.database.whenSynced(() => order.push(`1 is a.told, ${a.committed()} are committed`));
    a.put(2);
    await Promise.resolve();
    a.put(3);
    a.database.whenSynced(() => order.push(`3 is a.told, ${a.committed()} are committed`));
    await a.database.synced();
    expect(order).toEqual(['1 is a.told, 1 are committed', '3 is a.told, 1,2,3 are committed']);
  });

  it('is not begun by reads', async () => {
    a.all();
    expect(a.database.synced()).toBeNull();
    let isTold = false;
    a.database.whenSynced(() => {
      isTold = true;
    });
    expect(isTold).toBe(true);
    a.put(1);
    a.all();
    expect(a.database.synced()).not.toBeNull();
    await a.database.synced();
    expect(a.database.synced()).toBeNull();
  });

  it('is gathered once the commit before it is on disk', async () => {
    a.put(1);
    let isTold = false;
    a.database.whenSynced(() => {
      isTold = true;
    });
    await a.storage.gathered();
    expect(isTold).toBe(true);
    await a.storage.gathered();
  });
});

describe('a transaction', () => {
  it('undoes its own writes alone, and throws on', () => {
    a.put(1);
    const work = () =>
      a.storage.transaction(() => {
        a.put(2);
        a.storage.alarm.set(5);
        expect(() =>
          a.storage.transaction(() => {
            a.put(3);
            throw new Error('inner');
          }),
        ).toThrow('inner');
        expect(a.all()).toEqual([1, 2]);
        throw new Error('outer');
      });
    expect(work).toThrow('outer');
    expect(a.all()).toEqual([1]);
    expect(a.storage.alarm.get()).toBeNull();
    expect(
      a.storage.transaction(() => a.storage.sql.exec('INSERT INTO t (n) VALUES (4) RETURNING n')),
    ).toEqual([{ n: 4 }]);
    expect(a.all()).toEqual([1, 4]);
  });
});

describe('the end of an object', () => {
  it('undoes what was not committed, and nobody is told of it', async () => {
    a.put(1);
    a.storage.alarm.set(10);
    await a.database.synced();
    a.put(2);
    a.storage.alarm.set(20);
    const outputs: string[] = [];
    a.database.whenSynced(
      () => outputs.push('left'),
      ({ message }) => outputs.push(message),
    );
    const synced = a.database.synced();
    a.database.undo(new Error('starts again'));
    await expect(synced).rejects.toThrow('starts again');
    expect(outputs).toEqual(['starts again']);
    const next = a.database.begin();
    expect(a.all(next)).toEqual([1]);
    expect(next.alarm.get()).toBe(10);
    expect(a.committed()).toEqual([1]);
  });

  it('refuses its statements, its alarm and its transactions, also when the next one lives', async () => {
    const ended = a.storage;
    const refused = () => {
      expect(() => ended.sql.exec('SELECT 1')).toThrow(/starts again|has ended/);
      expect(() => ended.sql.exec('DELETE FROM t')).toThrow(/starts again|has ended/);
      expect(() => ended.alarm.set(1)).toThrow(/starts again|has ended/);
      expect(() => ended.transaction(() => 1)).toThrow(/starts again|has ended/);
    };
    const gathered = Promise.race([ended.gathered().then(() => 'gathered'), a.database.synced()]);
    a.database.undo(new Error('starts again'));
    refused();
    a.storage = a.database.begin();
    refused();
    a.put(1);
    await a.database.synced();
    expect(
      await Promise.race([gathered, new Promise((resolve) => setTimeout(resolve, 50, 'never'))]),
    ).not.toBe('gathered');
    expect(a.all()).toEqual([1]);
  });

  it('in the middle of a transaction leaves none open', () => {
    const work = () =>
      a.storage.transaction(() => {
        a.put(1);
        a.database.undo(new Error('starts again'));
        a.put(2);
      });
    expect(work).toThrow('starts again');
    expect(a.all(a.database.begin())).toEqual([]);
  });
});

describe('the alarm', () => {
  it('is stored with the commit, in whole ms, and only when it has changed', async () => {
    a.storage.alarm.set(7.2);
    expect(a.storage.alarm.get()).toBe(8);
    expect(a.told).toEqual([]);
    await a.database.synced();
    a.storage.alarm.set(8);
    expect(a.database.synced()).toBeNull();
    a.put(1);
    await a.database.synced();
    expect(a.told).toEqual([{ alarm: 8 }]);
    await a.use(a.path);
    expect(a.storage.alarm.get()).toBe(8);
    a.storage.alarm.clear();
    await a.database.synced();
    expect(a.told).toEqual([{ alarm: 8 }, { alarm: null }]);
    a.database.undo(new Error('starts again'));
    expect(a.database.begin().alarm.get()).toBeNull();
  });

  it('is there again if its object ends before what it was fired for is done', async () => {
    a.storage.alarm.set(8);
    await a.database.synced();
    expect(a.storage.alarm.fires()).toBe(8);
    expect(a.storage.alarm.get()).toBeNull();
    a.put(1);
    await a.database.synced();
    a.database.undo(new Error('starts again'));
    a.storage = a.database.begin();
    expect(a.storage.alarm.get()).toBe(8);
    a.storage.alarm.fires();
    a.storage.alarm.fired();
    await a.database.synced();
    a.database.undo(new Error('starts again'));
    expect(a.database.begin().alarm.get()).toBeNull();
  });
});

describe('a cleared database', () => {
  it('has its tables made anew in the same turn, and the disk has its room back', async () => {
    for (let n = 0; n < 50; n += 1) a.put(n, 'x'.repeat(100_000));
    a.storage.alarm.set(8);
    await a.database.synced();
    expect(a.storage.databaseBytes()).toBeGreaterThan(5_000_000);
    const made = a.storage.clear(() => {
      a.storage.sql.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)');
      return 'made';
    });
    expect(made).toBe('made');
    expect(a.storage.alarm.get()).toBeNull();
    a.put(1);
    await a.database.synced();
    expect(a.storage.databaseBytes()).toBeLessThan(50_000);
    await until(() => statSync(a.path).size < 50_000, 'the file is small again');
    expect(a.all()).toEqual([1]);
    expect(a.committed()).toEqual([1]);
  });
});

describe('a cleared database that another process reads', () => {
  it('is small again once the reader is done', async () => {
    for (let n = 0; n < 50; n += 1) a.put(n, 'x'.repeat(100_000));
    await a.database.synced();
    await until(() => statSync(a.path).size > 5_000_000, 'the rows are in the file');
    const reader = new DatabaseSync(a.path);
    reader.exec('BEGIN; SELECT count(*) FROM t');
    reader.prepare('SELECT count(*) FROM t').get();
    a.storage.clear(() => a.storage.sql.exec('CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)'));
    a.put(1);
    await a.database.synced();
    // The first copy is made meanwhile, and cannot take what is newer than the reader's view.
    await sleep(500);
    expect(statSync(a.path).size).toBeGreaterThan(5_000_000);
    reader.close();
    await until(() => statSync(a.path).size < 50_000, 'the file is small again');
    expect(a.all()).toEqual([1]);
  });
});

describe('a lock of another process', () => {
  it('holds writes up once: as long as it stays, further ones fail at once', async () => {
    const shell = new DatabaseSync(a.path);
    shell.exec('BEGIN IMMEDIATE');
    // If each waited, this would take longer than a test may.
    for (let n = 0; n < 300; n += 1) expect(() => a.put(n)).toThrow('database is locked: SQLITE_BUSY');
    expect(a.told).toEqual([{ log: ['warn', expect.stringContaining('another process'), { path: a.path }] }]);
    shell.exec('COMMIT');
    a.put(1);
    expect(a.all()).toEqual([1]);
    // The next one waits again.
    await a.database.synced();
    shell.exec('BEGIN IMMEDIATE');
    expect(() => a.put(2)).toThrow('database is locked: SQLITE_BUSY');
    expect(a.told).toHaveLength(2);
    shell.close();
  });
});
