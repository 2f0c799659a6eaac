import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { UserError } from '../process/index.ts';
import { stateFolderError } from './folder.ts';
import { isBusy, openDatabase } from './sqlite.ts';

/** The right to use a state folder. */
export interface StateLock {
  /** Returns whether the locked folder is still there: it may have been removed, replaced or unmounted. */
  holds(): Promise<boolean>;
  release(): void;
}

/**
 * Makes sure that one process uses a state folder at a time. The lock is SQLite's on the empty file `lock` in
 * the folder itself: unlike a file with a process id it cannot outlive its owner, however that one ends.
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
