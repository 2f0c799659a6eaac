import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { UserError } from '../process/index.ts';

/** Lies in a state folder while a backup is restored to it: what else is there is not all. */
export const RESTORING = 'restoring';

/**
 * Makes a folder and those above it, each for its owner alone; one that is there stays as it is. Unlike Node's
 * recursive `mkdir`, which never ends below /proc, it gives up where a folder cannot be made.
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
    // Not once more from above: the folder over it is there now, and this one still may not be made.
    await mkdir(path, { mode: 0o700 });
  }
}

/**
 * What to say when the state folder cannot be used: the cause, and what to do.
 * @param what could not be done, as in `Cannot lock the state folder`
 * @param user id of the one this process runs as; undefined where there are none
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

/** What makes this very folder usable, as the beginning of a sentence; null: nothing that is known. */
function remedyOf(code: string | undefined, stateDir: string, user: number | undefined): string | null {
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'Make room on its disk';
  if ((code === 'EACCES' || code === 'EPERM') && user !== undefined) {
    return `Give it to the user that this runs as (chown -R ${user} ${stateDir})`;
  }
  return null;
}
