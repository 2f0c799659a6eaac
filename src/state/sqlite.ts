import type { DatabaseSync, DatabaseSyncOptions } from 'node:sqlite';

/** SQLite's code for a lock that another connection holds. */
const SQLITE_BUSY = 5;

/** Opens a database. @throws the error of SQLite, with its `errcode` */
export function openDatabase(path: string | URL, options?: DatabaseSyncOptions): DatabaseSync {
  const { DatabaseSync: Database } = loadSqlite();
  return new Database(path, { timeout: 0, ...options });
}

/** Returns whether an error means that another connection holds the requested lock. */
export function isBusy(error: unknown): boolean {
  return (error as { errcode?: number }).errcode === SQLITE_BUSY;
}

/** Loads SQLite when it is needed, without Node 22's warning that it is experimental. */
export function loadSqlite(): typeof import('node:sqlite') {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
}
