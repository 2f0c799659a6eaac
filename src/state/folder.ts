import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { UserError } from '../process/index.ts';

/** The file that marks a state folder as incomplete while a backup is restored to it. */
export const RESTORING = 'restoring';

/**
 * Makes a folder and the missing ones above it, each for its owner alone. Unlike Node's recursive `mkdir`, which never
 * ends below /proc, it gives up if a folder cannot be made.
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
 * @param user the id of this process's user; undefined on systems without
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
