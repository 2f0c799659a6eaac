import type { DatabaseSync } from 'node:sqlite';

/**
 * What every connection that writes or checkpoints is told about syncs. NORMAL syncs around a checkpoint and not in a
 * commit. macOS's own fsync leaves data in the drive, which may write it in another order: SQLite uses F_FULLFSYNC there
 * if it is told to. Node's fsync and fdatasync always do. Other systems know no difference.
 */
export const SYNCS = 'PRAGMA synchronous = NORMAL; PRAGMA fullfsync = ON';

const PAGE_BYTES = 8192;
/** The longest that everything stands still for the log of one database, ms. */
const MOST_WAIT_MS = 1000;

/**
 * Has commits write a log and sync nothing; it is synced, and copied into the database, apart from them.
 * @param cutTo bytes of the log's file that stay when the log begins anew
 */
export function useLog(database: DatabaseSync, cutTo: number): void {
  // Of a database that is made now. A job's row with its result fills most of a page of SQLite's 4 KiB, and leaves the
  // rest of it empty; each page costs two writes to the log.
  database.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  // All of its rows: one that has begun says `wal` before it has failed.
  const [mode] = database.prepare('PRAGMA journal_mode = WAL').all();
  if (mode?.journal_mode !== 'wal')
    throw new Error('its file system cannot hold the log of a database: SQLITE_IOERR');
  database.exec(`${SYNCS}; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY`);
  // When the log begins anew its file is cut to this: if it is longer, its length is that of the log.
  database.exec(`PRAGMA journal_size_limit = ${cutTo}`);
  // The first statement that reads makes the file of the log.
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
}

/** Waits until the other thread does not copy it. @returns whether all of it was copied */
export function copyLog(database: DatabaseSync): boolean {
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  for (let waited = 0; waited < MOST_WAIT_MS; waited += 1) {
    const [did] = database.prepare('PRAGMA wal_checkpoint(PASSIVE)').all();
    if (did!.busy === 0) return did!.log === did!.checkpointed;
    Atomics.wait(asleep, 0, 0, 1);
  }
  return false;
}
