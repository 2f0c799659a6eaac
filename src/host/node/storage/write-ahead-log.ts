import type { DatabaseSync } from 'node:sqlite';

/**
 * The sync settings of every connection that writes or checkpoints. With NORMAL, SQLite syncs around a checkpoint but
 * not in a commit. On macOS fsync leaves data in the drive, which may write it in another order: with `fullfsync`
 * SQLite uses F_FULLFSYNC there, as Node's fsync and fdatasync always do. On other systems there is no difference.
 */
export const SYNCS = 'PRAGMA synchronous = NORMAL; PRAGMA fullfsync = ON';

const PAGE_BYTES = 8192;
/** The longest time that the main thread waits to copy the log of one database, ms. */
const MOST_WAIT_MS = 1000;

/**
 * Makes commits write a log and sync nothing; syncs, and copies into the database, are made apart from commits.
 * @param cutTo the length to which the log's file is cut when the log begins anew, bytes
 */
export function useLog(database: DatabaseSync, cutTo: number): void {
  // The page size applies to a new database only. In SQLite's pages of 4 KiB, a job's row with its result fills most of
  // a page and leaves the rest empty; each page costs two writes to the log.
  database.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  // `all` runs the statement to its end: the first row says `wal` even if the statement then fails.
  const [mode] = database.prepare('PRAGMA journal_mode = WAL').all();
  if (mode?.journal_mode !== 'wal')
    throw new Error('its file system cannot hold the log of a database: SQLITE_IOERR');
  database.exec(`${SYNCS}; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY`);
  // SQLite would leave the bytes of what is deleted in pages until it needs them again.
  database.prepare('PRAGMA secure_delete = ON').all();
  // When the log begins anew SQLite cuts its file to this length, since a longer file would count as a longer log.
  database.exec(`PRAGMA journal_size_limit = ${cutTo}`);
  // The first statement that reads creates the log's file.
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
}

/** Copies the log in this thread, after any copy in the other thread. @returns whether all of it was copied */
export function copyLog(database: DatabaseSync): boolean {
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  for (let waited = 0; waited < MOST_WAIT_MS; waited += 1) {
    const [did] = database.prepare('PRAGMA wal_checkpoint(PASSIVE)').all();
    if (did!.busy === 0) return did!.log === did!.checkpointed;
    Atomics.wait(asleep, 0, 0, 1);
  }
  return false;
}
