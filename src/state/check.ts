import { constants, type Dirent, existsSync } from 'node:fs';
import { access, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { versionProblem } from '../durable/ports.ts';
import { EXIT, UserError } from '../process/index.ts';
import { RESTORING, stateFolderError } from './folder.ts';
import { isBusy, openDatabase } from './sqlite.ts';

/** The report about one database of the state folder. */
export interface DatabaseReport {
  /** The absolute path of the database. */
  path: string;
  /** The object class that the database belongs to, which is the name of its folder. */
  owner: string;
  bytes: number;
  /** The problem that keeps the queue from using the database; null: none was found. */
  problem: { kind: 'version' | 'damaged' | 'unreadable'; text: string } | null;
  /** The number of jobs by state, as far as they can be read; null: there are none, or none can be read. */
  jobs: Record<string, number> | null;
}

/** A start reads every page of databases up to this size, bytes, and only header and schema of larger ones. */
const QUICK_BYTES = 32 * 1024 * 1024;

/**
 * Examines every database of a state folder without changing one. A queue may be using them.
 * @param depth `start`: quick, for each start; `full`: reads all pages and counts jobs
 * @returns an empty list for a folder without databases
 * @throws the error of a folder that cannot be listed
 */
export async function checkDatabases(stateDir: string, depth: 'start' | 'full'): Promise<DatabaseReport[]> {
  const dataDir = join(stateDir, 'data');
  const owners = (await entriesOf(dataDir)).filter((entry) => entry.isDirectory());
  const reports = await Promise.all(
    owners.map(async ({ name: owner }) => {
      const files = (await entriesOf(join(dataDir, owner))).filter(({ name }) => name.endsWith('.sqlite'));
      return Promise.all(files.map(({ name }) => checkDatabase(join(dataDir, owner, name), owner, depth)));
    }),
  );
  return reports.flat();
}

/** The advice for a state of another version, since before 1.0 nothing converts a state. */
export const OTHER_VERSION_ADVICE =
  'Start the version that wrote it to run its jobs dry and to read results; start this one on another state folder ' +
  '(WORKER_VLLM_STATE or --state) with a copy of tokens.json: docs/upgrading.md has the steps.';

/**
 * Refuses to start on a state that cannot be used, before anything is written to it.
 * @throws UserError with one line that names the first such file
 */
export async function assertUsable(stateDir: string): Promise<void> {
  if (isHalfRestored(stateDir)) throw new UserError(halfRestoredText(stateDir), EXIT.badState);
  const reports = await checkDatabases(stateDir, 'start').catch((error) => {
    throw stateFolderError('read the state folder', stateDir, error);
  });
  const bad = reports.find(({ problem }) => problem !== null);
  if (!bad?.problem) return;
  const { path, problem } = bad;
  if (problem.kind === 'version') {
    throw new UserError(
      `${path} ${problem.text}. Nothing was changed. ${OTHER_VERSION_ADVICE}`,
      EXIT.badState,
    );
  }
  throw new UserError(
    `${path} ${problem.text}. "npx worker-vllm state check --state ${stateDir}" says what can be saved.`,
    EXIT.badState,
  );
}

/** Returns whether a restore to the folder is in progress, or was cut short. */
export function isHalfRestored(stateDir: string): boolean {
  return existsSync(join(stateDir, RESTORING));
}

export function halfRestoredText(stateDir: string): string {
  return (
    `${stateDir} holds a part of a backup: "worker-vllm state restore" runs, or was ended before it was done. ` +
    'Then empty the folder and restore again.'
  );
}

async function checkDatabase(path: string, owner: string, depth: 'start' | 'full'): Promise<DatabaseReport> {
  const report: DatabaseReport = { path, owner, bytes: 0, problem: null, jobs: null };
  let database: DatabaseSync | undefined;
  try {
    await access(path, constants.R_OK);
    const found = await stat(path);
    report.bytes = found.size;
    if (!found.isFile()) {
      report.problem = { kind: 'unreadable', text: 'cannot be read (it is not a file)' };
      return report;
    }
    database = openToRead(path);
    if (depth === 'full') report.jobs = jobsIn(database);
    // All pages are read first: a damaged page may show any version.
    if (depth === 'full' || report.bytes <= QUICK_BYTES) readAllPages(database);
    const version = versionOf(database);
    const otherVersion = version === null ? null : versionProblem(version);
    if (otherVersion !== null) {
      report.problem = { kind: 'version', text: otherVersion };
      return report;
    }
  } catch (error) {
    // If the database is busy, another process is writing it at this moment, and will find its faults itself.
    report.problem = isBusy(error) ? null : problemOf(error);
  } finally {
    database?.close();
  }
  return report;
}

/** Opens a database of a queue for reading, also while the queue runs. SQLite creates files beside it, unless an option says that there is no writer. */
export function openToRead(path: string): DatabaseSync {
  const location = pathToFileURL(path);
  if (!existsSync(`${path}-wal`)) location.searchParams.set('immutable', '1');
  return openDatabase(location, { readOnly: true, timeout: 1000 });
}

/**
 * Returns the version of a database; null: it has none of our tables, since nothing was written yet or it belongs to no
 * object.
 * @throws Error if a database too large to be read at a start has lost its version
 */
function versionOf(database: DatabaseSync): number | null {
  const tables = database.prepare(`SELECT name FROM sqlite_master WHERE name = 'schema_version'`).all();
  if (tables.length === 0) return null;
  const row = database.prepare('SELECT version FROM schema_version').get();
  if (!row) return null;
  if (!Number.isInteger(row.version)) throw new Error('its version is no number');
  return Number(row.version);
}

/** Counts the jobs by state. Returns null if they cannot be read. */
function jobsIn(database: DatabaseSync): Record<string, number> | null {
  try {
    const rows = database.prepare('SELECT state, count(*) AS n FROM jobs NOT INDEXED GROUP BY state').all();
    return Object.fromEntries(rows.map(({ state, n }) => [String(state), Number(n)]));
  } catch {
    return null;
  }
}

/** Reads all pages. @throws Error that says what is wrong, if a page is damaged */
function readAllPages(database: DatabaseSync): void {
  const [first] = database.prepare('PRAGMA quick_check(1)').all();
  const found = String(first?.quick_check ?? 'ok');
  if (found !== 'ok') throw new Error(found.split('\n').at(-1));
}

function problemOf(error: unknown): DatabaseReport['problem'] {
  const { code, errcode, message } = error as { code?: string; errcode?: number; message: string };
  // These are SQLite's primary codes: CANTOPEN 14, PERM 3, IOERR 10.
  const isUnreadable = code !== 'ERR_SQLITE_ERROR' && code !== undefined;
  if (isUnreadable || [3, 10, 14].includes((errcode ?? 0) & 0xff)) {
    return { kind: 'unreadable', text: `cannot be read (${message})` };
  }
  return { kind: 'damaged', text: `is damaged (${message})` };
}

async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
