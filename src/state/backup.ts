import { copyFile, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, UserError } from '../process/index.ts';
import { manifest as ownPackage } from '../process/package.ts';
import { checkDatabases, type DatabaseReport } from './check.ts';
import { makeFolder, stateFolderError } from './folder.ts';
import {
  MANIFEST,
  type Manifest,
  SINGLE_FILES,
  syncedSha256,
  syncFoldersOf,
  writeManifest,
} from './manifest.ts';
import { isBusy, loadSqlite, openDatabase } from './sqlite.ts';

/** The number of pages that are copied between two reports of the progress. */
const PAGES_A_STEP = 256;

interface Backup {
  /** The time of the copied state, ISO 8601. */
  takenAt: string;
  bytes: number;
  reports: DatabaseReport[];
}

/**
 * Copies the state of a queue, which may be running, into an empty folder: all databases as they were at one moment,
 * and the files beside them. The copy has everything that was acknowledged before the call.
 * @param progress called repeatedly with the bytes copied
 * @throws UserError when there is nothing to copy, the folder is not empty, cannot be written, or a database is damaged
 */
export async function takeBackup(
  stateDir: string,
  folder: string,
  progress: (done: number, total: number) => void,
): Promise<Backup> {
  const dataDir = join(stateDir, 'data');
  if (!(await stat(dataDir).catch(() => null))) {
    throw new UserError(
      `${stateDir} holds no state of a queue. Name its folder (WORKER_VLLM_STATE or --state).`,
    );
  }
  await makeEmpty(folder);
  try {
    const snapshot = await openSnapshot(dataDir);
    const takenAt = new Date().toISOString();
    const singles = await copySingles(stateDir, folder);
    await copyAll(snapshot, join(folder, 'data'), progress);
    const reports = await checkDatabases(folder, 'full');
    const damaged = reports.find(({ problem }) => problem !== null);
    if (damaged) throw damagedError(stateDir, damaged);
    const files = await filesOf(folder, [...singles, ...snapshot.map(({ path }) => join('data', path))]);
    await writeManifest(folder, { version: ownPackage.version, taken_at: takenAt, files });
    return { takenAt, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0), reports };
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw stateFolderError(`copy ${stateDir} to ${folder}`, folder, error);
  }
}

function damagedError(stateDir: string, { path, problem }: DatabaseReport): UserError {
  return new UserError(
    `The copy ${path} ${problem?.text}. "npx worker-vllm state check --state ${stateDir}" says more of the folder.`,
    EXIT.badState,
  );
}

/** Makes a folder that must be empty. @throws UserError if it is not */
async function makeEmpty(folder: string): Promise<void> {
  let found: string[];
  try {
    await makeFolder(folder);
    found = await readdir(folder);
  } catch (error) {
    throw stateFolderError('make the folder of the backup', folder, error);
  }
  if (found.length === 0) return;
  const isHalf = found.includes('data') && !found.includes(MANIFEST);
  throw new UserError(
    `${folder} is not empty${isHalf ? ': a backup there was ended before it was done. Remove it, or name' : '. Name'} a folder that is, or that is not there yet.`,
  );
}

async function copySingles(stateDir: string, folder: string): Promise<string[]> {
  const there = new Set(await readdir(stateDir));
  const names = SINGLE_FILES.filter((name) => there.has(name));
  for (const name of names) await copyFile(join(stateDir, name), join(folder, name));
  return names;
}

async function copyAll(
  snapshot: SnapshotDatabase[],
  folder: string,
  progress: (done: number, total: number) => void,
): Promise<void> {
  const { backup } = loadSqlite();
  const total = snapshot.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  for (const { path, bytes, reader } of snapshot) {
    await makeFolder(dirname(join(folder, path)));
    await backup(reader, join(folder, path), {
      rate: PAGES_A_STEP,
      progress: ({ totalPages, remainingPages }) =>
        progress(done + (bytes * (totalPages - remainingPages)) / Math.max(1, totalPages), total),
    });
    reader.close();
    done += bytes;
    progress(done, total);
  }
}

async function filesOf(folder: string, paths: string[]): Promise<Manifest['files']> {
  const files: Manifest['files'] = [];
  for (const path of paths) {
    const sha256 = await syncedSha256(join(folder, path));
    files.push({ path, bytes: (await stat(join(folder, path))).size, sha256 });
  }
  await syncFoldersOf(paths.map((path) => join(folder, path)));
  return files;
}

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
 * Opens all databases below a folder at one moment, while a queue writes them: together they hold what a queue killed
 * at that moment would find. It begins a reading transaction in each, one after another, and keeps them if no database
 * was changed between the first and the last; otherwise it begins all of them again. The queue waits for none of them,
 * since databases in WAL mode can be written while they are read.
 * @param begun called in the turn of each such moment, the last of which is the snapshot's
 * @throws UserError if no such moment came
 */
export async function openSnapshot(
  folder: string,
  begun: () => void = () => {},
): Promise<SnapshotDatabase[]> {
  const deadline = performance.now() + WITHIN_MS;
  let all: OpenDatabase[] = [];
  while (performance.now() < deadline) {
    const paths = await databasesIn(folder);
    if (!isSame(paths, all)) {
      closeAll(all);
      all = paths.map((path) => open(folder, path));
    }
    if (beginAll(all, begun) && isSame(await databasesIn(folder), all)) {
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

/** Returns the paths of the databases below a folder, except empty ones, to which nothing was committed. */
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

/** Begins a transaction in each database. @param begun called if all show one moment @returns whether all show one moment */
function beginAll(all: OpenDatabase[], begun: () => void): boolean {
  try {
    const before = all.map(({ watcher }) => pragma(watcher, 'data_version'));
    // A database that is being made is not in WAL mode yet: its writer would wait for a reader.
    if (all.some(({ watcher }) => pragma(watcher, 'journal_mode') !== 'wal')) return false;
    for (const one of all) {
      one.reader.exec('BEGIN');
      // This first statement begins the transaction.
      one.bytes = Number(pragma(one.reader, 'page_count')) * Number(pragma(one.reader, 'page_size'));
    }
    const isOneMoment = all.every(({ watcher }, index) => pragma(watcher, 'data_version') === before[index]);
    if (isOneMoment) begun();
    return isOneMoment;
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
