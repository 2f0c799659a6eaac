/** The names of SQLite's codes that may reach a caller, by number. */
const CODES: Record<number, string> = {
  1: 'SQLITE_ERROR',
  3: 'SQLITE_PERM',
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  7: 'SQLITE_NOMEM',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  15: 'SQLITE_PROTOCOL',
  18: 'SQLITE_TOOBIG',
  19: 'SQLITE_CONSTRAINT',
  26: 'SQLITE_NOTADB',
};
/** The codes for faults of the disk or the file, not of a statement, which an operator has to repair. */
const OF_THE_DISK = new Set([3, 8, 10, 11, 13, 14, 26]);

/** The codes for faults of the disk, of rights and of locks, after which the same statement may succeed later. */
const MAY_PASS = new Set([3, 5, 6, 7, 8, 10, 13, 14]);

const IOERR_FSYNC = 1034;
const IOERR_DIR_FSYNC = 1290;
/** SQLite's code when the index of the log cannot grow. */
const IOERR_SHMSIZE = 4874;

/** An error of SQLite, which has the number of its cause. */
export interface SqliteError extends Error {
  errcode: number;
}

/** Returns whether a sync failed, after which the data to be stored may be gone even if a later sync succeeds. */
export function isSyncError(error: unknown): boolean {
  const { errcode, syscall } = error as Partial<SqliteError & NodeJS.ErrnoException>;
  return [IOERR_FSYNC, IOERR_DIR_FSYNC].includes(errcode!) || ['fsync', 'fdatasync'].includes(syscall!);
}

/**
 * Returns the error with SQLite's code at the end of its message. The gateway answers callers by that code
 * (gateway/objects/calls.ts), since only the message of an object's error reaches it. Errors of the disk name the
 * database.
 */
export function withCode(error: unknown, path: string): Error {
  if (!isSqliteError(error)) return error as Error;
  const primary = error.errcode === IOERR_SHMSIZE ? 13 : error.errcode & 0xff;
  const code = CODES[primary] ?? `SQLITE_${primary}`;
  if (error.message.endsWith(code)) return error;
  const about = OF_THE_DISK.has(primary) ? `the database ${path} failed: ` : '';
  error.message = `${about}${error.message}: ${code}`;
  return error;
}

/** Returns an error of a folder or file of the database as one that ends with SQLite's code. */
export function withCodeOfFile(error: unknown, path: string): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  if (isSqliteError(error) || code === undefined) return withCode(error, path);
  const cause = code === 'ENOSPC' || code === 'EDQUOT' ? 'SQLITE_FULL' : 'SQLITE_CANTOPEN';
  return new Error(`the database ${path} failed: ${message}: ${cause}`, { cause: error });
}

/** Returns whether an error of a statement says nothing against the statement or the content of the file. */
export function mayPass(error: unknown): boolean {
  return isSqliteError(error) && MAY_PASS.has(error.errcode & 0xff);
}

/** Returns the error with which the process ends. */
export function syncFailure(path: string, cause: Error): Error {
  const message = `what was written to ${path} cannot be synced, so this process ends: ${cause.message}; acknowledged jobs are kept`;
  return new Error(message, { cause });
}

function isSqliteError(error: unknown): error is SqliteError {
  return (error as Partial<SqliteError>)?.errcode !== undefined;
}
