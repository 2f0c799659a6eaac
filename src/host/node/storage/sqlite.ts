import type { DatabaseSync } from 'node:sqlite';

/** Another process that writes, such as an operator's shell, is waited for this long, ms: it holds up all queues. */
const BUSY_MS = 1000;

/** Opens a database. @throws the error of SQLite */
export function openDatabase(path: string): DatabaseSync {
  const { DatabaseSync: Database } = loadSqlite();
  return new Database(path, { timeout: BUSY_MS });
}

/** Loaded when it is needed, and without Node 22's warning that it is experimental. */
function loadSqlite(): typeof import('node:sqlite') {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
}
