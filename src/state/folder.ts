import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { UserError } from '../process/index.ts';
import { isBusy, openDatabase } from './sqlite.ts';

/** The file that marks a state folder as incomplete while a backup is restored to it. */
export const RESTORING = 'restoring';

/**
 * Makes a folder and the missing ones above it, each for its owner alone. Node's recursive `mkdir` never ends below
 * /proc; this function gives up if a folder cannot be made.
 * @throws the error of the folder that cannot be made
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    const parent = dirname(path);
    if (code !== 'ENOENT' || parent === path) throw error;
    await makeFolder(parent);
    // This second try does not recurse: the parent is there now, and this folder may still not be makeable.
    await mkdir(path, { mode: 0o700 });
  }
}

/**
 * Returns the error for a state folder that cannot be used, with the cause and what to do.
 * @param what the failed action, as in `Cannot lock the state folder`
 * @param user the id of this process's user; undefined on systems without user ids
 */
export function stateFolderError(
  what: string,
  stateDir: string,
  error: unknown,
  user = process.getuid?.(),
): UserError {
  const { code, message } = error as NodeJS.ErrnoException;
  const remedy = remedyOf(code, stateDir, user);
  const choice = remedy === null ? 'Choose' : `${remedy}, or choose`;
  return new UserError(
    `Cannot ${what}: ${message}. ${choice} another folder (WORKER_VLLM_STATE or --state).`,
  );
}

/** Returns the advice that makes this folder usable, as the beginning of a sentence, or null if none is known. */
function remedyOf(code: string | undefined, stateDir: string, user: number | undefined): string | null {
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'Make room on its disk';
  if ((code === 'EACCES' || code === 'EPERM') && user !== undefined) {
    return `Give it to the user that this runs as (chown -R ${user} ${stateDir})`;
  }
  return null;
}

/** A lock on a state folder: the right to use it. */
export interface StateLock {
  /** Returns whether the locked folder is still there: it may have been removed, replaced or unmounted. */
  holds(): Promise<boolean>;
  release(): void;
}

/**
 * Makes sure that one process uses a state folder at a time. The lock is SQLite's on the empty file `lock` in the
 * folder itself: unlike a file with a process id it cannot outlive its owner, in whatever way the owner ends.
 * @throws UserError that names the process which uses the folder
 */
export async function lockState(stateDir: string): Promise<StateLock> {
  const holder = join(stateDir, 'lock.pids');
  const path = join(stateDir, 'lock');
  let lock: DatabaseSync | undefined;
  try {
    lock = openDatabase(path);
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    writeFileSync(holder, `${process.pid}\n`);
  } catch (error) {
    lock?.close();
    if (!isBusy(error)) throw stateFolderError('lock the state folder', stateDir, error);
    const pid = pidIn(holder);
    throw new UserError(
      `The state folder ${stateDir} is in use by another worker-vllm${pid ? ` (process ${pid})` : ''}. ` +
        'Stop that one, or choose another folder (WORKER_VLLM_STATE or --state).',
    );
  }
  const locked = statSync(path);
  return {
    holds: async () => {
      try {
        const { dev, ino } = await stat(path);
        return dev === locked.dev && ino === locked.ino;
      } catch (error) {
        // Only ENOENT means that the folder is gone.
        return (error as NodeJS.ErrnoException).code !== 'ENOENT';
      }
    },
    release: () => lock.close(),
  };
}

/** Returns the id of the process that locked the folder, or an empty text if it is unknown. */
function pidIn(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim().split('\n', 1)[0]!;
  } catch {
    return '';
  }
}

/** The longest name of a folder, below the 255 bytes that file systems allow. */
const LONGEST_NAME = 200;

/**
 * Returns the folder of a queue's databases, below the data folder. Ids may hold any characters: no two ids share a
 * folder, even if the file system ignores case, and no id leads out of the data folder.
 */
export function queueFolder(queueId: string): string {
  const name = Array.from(Buffer.from(queueId), nameOf).join('');
  if (queueId.isWellFormed() && name.length <= LONGEST_NAME) return name;
  return `~${createHash('sha256').update(queueId, 'utf16le').digest('hex')}`;
}

function nameOf(byte: number): string {
  const character = String.fromCharCode(byte);
  return /[a-z\d_-]/.test(character) ? character : `%${byte.toString(16).padStart(2, '0')}`;
}

/**
 * Returns the secret behind the keys of payloads and results (protocol/file-keys.ts). It stays in the state folder, for
 * its owner alone, so that addresses given to workers outlive a restart.
 * @throws UserError when the folder cannot be used
 */
export async function fileKeySecret(stateDir: string): Promise<string> {
  const path = join(stateDir, 'file-key-secret');
  try {
    const kept = (await readFile(path, 'utf8').catch(missing)).trim();
    if (kept) return kept;
    const secret = randomBytes(32).toString('hex');
    await writeFile(path, `${secret}\n`, { mode: 0o600 });
    return secret;
  } catch (error) {
    throw stateFolderError('keep the secret of file keys', stateDir, error);
  }
}

/** Stores the secret of another process of the same queue, in place of the folder's own. */
export async function storeFileKeySecret(stateDir: string, secret: string): Promise<void> {
  try {
    await writeFile(join(stateDir, 'file-key-secret'), `${secret}\n`, { mode: 0o600 });
  } catch (error) {
    throw stateFolderError('keep the secret of file keys', stateDir, error);
  }
}

function missing(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT') return '';
  throw error;
}
