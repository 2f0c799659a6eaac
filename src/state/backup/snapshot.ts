import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, UserError } from '../../process/index.ts';
import { isBusy, openDatabase } from '../sqlite.ts';

/** How long to wait for a moment without a commit, ms. The transactions take tens of microseconds each to begin. */
const WITHIN_MS = 30_000;
/** Between two tries at most, ms. */
const PAUSE_MS = 10;
/** For a lock that the queue holds while it opens a database, ms. */
const BUSY_MS = 1000;

/** One database as it was at the moment of the snapshot. */
export interface SnapshotDatabase {
  /** Below the folder of databases. */
  path: string;
  bytes: number;
  /** Reads that moment until it is closed. */
  reader: DatabaseSync;
}

/** With a second connection, which tells whether another process has committed anything. */
interface OpenDatabase extends SnapshotDatabase {
  watcher: DatabaseSync;
}

/**
 * Opens all databases below a folder at one moment, while a queue writes them: together they hold what a queue that was
 * killed at that moment would find. A reading transaction is begun in each, one after another, and they are kept if no
 * database was changed between the first and the last; else all begin anew. Nobody waits for them, since databases in
 * WAL mode are written while they are read.
 * @throws UserError where no such moment came
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

/** Paths of the databases below a folder. One of no bytes is being made: nothing was committed to it. */
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

/** @returns whether all are of one moment */
function beginAll(all: OpenDatabase[]): boolean {
  try {
    const before = all.map(({ watcher }) => pragma(watcher, 'data_version'));
    // A database that is being made is not in WAL mode yet: its writer would wait for a reader.
    if (all.some(({ watcher }) => pragma(watcher, 'journal_mode') !== 'wal')) return false;
    for (const one of all) {
      one.reader.exec('BEGIN');
      // With its first statement a transaction begins.
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
