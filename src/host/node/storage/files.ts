import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Makes a folder and those above it that are missing. What is in a folder can only be found again once it is synced. */
export async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  // The one above it also if it was there: the process that made it may have ended before it could.
  const last = dirname(first ?? folder);
  for (let above = folder; above !== last; ) {
    above = dirname(above);
    await syncFolder(above);
  }
}

/** Syncs the entries of a folder: that its files are there. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } catch (error) {
    // Some file systems have no sync of folders; SQLite does without as well.
    if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code!)) throw error;
  } finally {
    await handle.close();
  }
}
