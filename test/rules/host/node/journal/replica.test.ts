import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { STATE_VERSION } from '../../../../../src/durable/ports.ts';
import { encode, type Group } from '../../../../../src/host/node/journal/entry.ts';
import type { Entry } from '../../../../../src/host/node/journal/journal.ts';
import { Diverged, Replica } from '../../../../../src/host/node/journal/replica.ts';
import { openDatabase } from '../../../../../src/state/sqlite.ts';

let folder: string;
let replica: Replica;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'replica-'));
  replica = new Replica(folder, { seq: 0, epoch: 1 });
});

afterEach(async () => {
  replica.close();
  await rm(folder, { recursive: true });
});

const insert = (name: string): Group => ({
  database: `${name}/queue.sqlite`,
  writes: [['INSERT INTO t VALUES (1)']],
});

function entry(seq: number, groups: Group[]): Entry {
  return { seq, epoch: 1, body: encode({ kind: 'commits', stateVersion: STATE_VERSION, groups }) };
}

function rows(name: string): number {
  const database = openDatabase(join(folder, name, 'queue.sqlite'));
  const { count } = database.prepare('SELECT count(*) AS count FROM t').get()!;
  database.close();
  return Number(count);
}

it('does nothing twice where the commit of one database has failed', () => {
  const make = (name: string, column: string): Group => ({
    database: `${name}/queue.sqlite`,
    writes: [[`CREATE TABLE t (n ${column})`]],
  });
  const noParent = 'REFERENCES t (n) DEFERRABLE INITIALLY DEFERRED';
  const made = [make('a', ''), make('b', 'UNIQUE'), make('c', '')];
  const child: Group = { database: 'b/queue.sqlite', writes: [[`CREATE TABLE child (n ${noParent})`]] };
  replica.apply([entry(1, [...made, child])]);
  // A full disk is not to be had in a test: the commit of b fails for another reason.
  const orphan: Group = { database: 'b/queue.sqlite', writes: [['INSERT INTO child VALUES (9)']] };
  expect(() => replica.apply([entry(2, [insert('a'), orphan, insert('c')])])).toThrow('FOREIGN KEY');
  expect(replica.place.seq).toBe(1);
  replica.apply([entry(2, [insert('a'), insert('b'), insert('c')])]);
  expect([rows('a'), rows('b'), rows('c')]).toEqual([1, 1, 1]);
});

it('does not give its files up while the disk is full', () => {
  replica.apply([entry(1, [{ database: 'a/queue.sqlite', writes: [['CREATE TABLE t (n)']] }])]);
  const limit: Group = { database: 'a/queue.sqlite', writes: [['PRAGMA max_page_count = 1']] };
  const large: Group = {
    database: 'a/queue.sqlite',
    writes: [['INSERT INTO t VALUES (?)', 'x'.repeat(100_000)]],
  };
  replica.apply([entry(2, [limit])]);
  const error = failure(() => replica.apply([entry(3, [large])]));
  expect(error.message).toContain('full');
  expect(error).not.toBeInstanceOf(Diverged);
});

function failure(work: () => void): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error('it did not fail');
}
