import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, UserError } from '../../process/index.ts';
import { isBusy, openDatabase } from '../sqlite.ts';

/** The snapshot waits at most this many ms for a moment without a commit; each transaction begins within 0.1 ms. */
const WITHIN_MS = 30_000;
/** The longest pause between two tries, ms. */
const PAUSE_MS = 10;
/** The longest wait for a lock that the queue holds while it opens a database, ms. */
const BUSY_MS = 1000;

/** One database as it was at the moment of the snapshot. */
export interface SnapshotDatabase {
  /** The path below the folder of databases. */
  path: string;
  bytes: number;
  /** The connection that reads the state of that moment until it is closed. */
  reader: DatabaseSync;
}

/** A database with a second connection, which shows whether another process has committed anything. */
interface OpenDatabase extends SnapshotDatabase {
  watcher: DatabaseSync;
}

/**
 * Opens all databases below a folder at one moment, while a queue writes them: together they hold what a queue that was
 * killed at that moment would find. It begins a reading transaction in each, one after another, and keeps them if no
 * database was changed between the first and the last; else it begins all anew. The queue waits for none of them, since
 * databases in WAL mode can be written while they are read.
 * @throws UserError if no such moment came
 */
export async function openSnapshot(folder: string): Promise<SnapshotDatabase[]> {
  const deadline = performance.now() + WITHIN_MS;
  let all: OpenDatabase[] = [];
  while (performance.now() < deadline) {
    const paths = await databasesIn(folder);
    if (!isSame(paths, all)) {
      closeAll(all);
      all = paths.map((path) => open(folder, path));
    }
    if (beginAll(all) && isSame(await databasesIn(folder), all)) {
      for (const { watcher } of all) watcher.close();
      return all;
    }
    for (const { reader } of all) if (reader.isTransaction) reader.exec('ROLLBACK');
    await sleep(Math.random() * PAUSE_MS);
  }
  closeAll(all);
  throw new UserError(
    `The queue changed its databases all the time for ${WITHIN_MS / 1000} s, so there was no moment to take them at. ` +
      'Try again when it has less to do.',
    EXIT.unexpected,
  );
}

/** Returns the paths of the databases below a folder, without empty ones: nothing was committed to those. */
async function databasesIn(folder: string): Promise<string[]> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.sqlite'));
  const sizes = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => ({ size: 0 }))));
  return names.filter((_, index) => sizes[index]!.size > 0).sort();
}

function open(folder: string, path: string): OpenDatabase {
  const options = { readOnly: true, timeout: BUSY_MS };
  const reader = openDatabase(join(folder, path), options);
  return { path, bytes: 0, reader, watcher: openDatabase(join(folder, path), options) };
}

/** Begins a transaction in each database. @returns whether all show one moment */
function beginAll(all: OpenDatabase[]): boolean {
  try {
    const before = all.map(({ watcher }) => pragma(watcher, 'data_version'));
    // A database that is being made is not in WAL mode yet: its writer would wait for a reader.
    if (all.some(({ watcher }) => pragma(watcher, 'journal_mode') !== 'wal')) return false;
    for (const one of all) {
      one.reader.exec('BEGIN');
      // This first statement begins the transaction.
      one.bytes = Number(pragma(one.reader, 'page_count')) * Number(pragma(one.reader, 'page_size'));
    }
    return all.every(({ watcher }, index) => pragma(watcher, 'data_version') === before[index]);
  } catch (error) {
    if (!isBusy(error)) throw error;
    return false;
  }
}

function pragma(database: DatabaseSync, name: string): unknown {
  return database.prepare(`PRAGMA ${name}`).get()?.[name];
}

function isSame(paths: string[], all: OpenDatabase[]): boolean {
  return paths.length === all.length && all.every(({ path }, index) => path === paths[index]);
}

function closeAll(all: OpenDatabase[]): void {
  for (const { reader, watcher } of all) {
    reader.close();
    watcher.close();
  }
}
