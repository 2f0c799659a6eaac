import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../process/index.ts';
import { stateFolderError } from './folder.ts';
import { isBusy, openDatabase } from './sqlite.ts';

/** A workerd whose parent was killed is killed by the watchdog; it gets this long to be gone, ms. */
const ORPHAN_MS = 3000;

/** The right to use a state folder. */
export interface StateLock {
  /** Records the child that uses the folder too, for the message when it is found left behind. */
  note(workerdPid: number): void;
  release(): void;
}

/**
 * Makes sure that one process uses a state folder at a time. The lock is SQLite's on the empty file `lock` in
 * the folder itself: unlike a file with a process id it cannot outlive its owner, however that one ends.
 * @throws UserError that names the process which uses the folder
 */
export async function lockState(stateDir: string): Promise<StateLock> {
  const holders = join(stateDir, 'lock.pids');
  let lock: DatabaseSync | undefined;
  try {
    lock = openDatabase(join(stateDir, 'lock'));
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    const [, orphan] = pidsIn(holders);
    await awaitOrphan(stateDir, orphan);
    writeFileSync(holders, `${process.pid}\n`);
  } catch (error) {
    lock?.close();
    if (error instanceof UserError) throw error;
    if (!isBusy(error)) throw stateFolderError('lock the state folder', stateDir, error);
    const [pid] = pidsIn(holders);
    throw new UserError(
      `The state folder ${stateDir} is in use by another worker-vllm${pid ? ` (process ${pid})` : ''}. ` +
        'Stop that one, or choose another folder (WORKER_VLLM_STATE or --state).',
    );
  }
  const write = (pids: string) => {
    try {
      writeFileSync(holders, pids);
    } catch {
      // A message that names no process is no reason to end.
    }
  };
  return {
    note: (workerdPid) => write(`${process.pid}\n${workerdPid}\n`),
    release: () => {
      // It has left no process behind.
      write('');
      lock.close();
    },
  };
}

/** The process that locked the folder, and the workerd that it started. */
function pidsIn(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}

/**
 * Waits until nothing has the databases of the object classes open: a workerd that has lost its parent ends within that
 * time, and whatever looks into a database may be closed.
 * @param pid of the workerd that the last owner of the lock started, if that owner did not release it
 * @throws UserError when they stay open
 */
async function awaitOrphan(stateDir: string, pid: string | undefined): Promise<void> {
  const deadline = performance.now() + ORPHAN_MS;
  while (isServed(join(stateDir, 'data'))) {
    if (performance.now() > deadline) {
      throw new UserError(
        pid !== undefined && isAlive(Number(pid))
          ? `The state folder ${stateDir} is still in use by the workerd of an earlier worker-vllm that was killed ` +
              `(process ${pid}). End it (kill ${pid}), or choose another folder (WORKER_VLLM_STATE or --state).`
          : `A database of the state folder ${stateDir} is open in another process, such as a shell of SQLite. ` +
              'Close it, or choose another folder (WORKER_VLLM_STATE or --state).',
      );
    }
    await sleep(50);
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function isServed(dataDir: string): boolean {
  return readdirSync(dataDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(dataDir, name, 'metadata.sqlite'))
    .some((path) => existsSync(path) && isOpenElsewhere(path));
}

/** Whether another process has the database open; one that cannot be opened at all is not looked at here. */
function isOpenElsewhere(path: string): boolean {
  let database: DatabaseSync | undefined;
  try {
    database = openDatabase(path);
    database.exec('PRAGMA locking_mode = EXCLUSIVE');
    database.prepare('SELECT count(*) FROM sqlite_master').get();
    return false;
  } catch (error) {
    return isBusy(error);
  } finally {
    database?.close();
  }
}
