import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Makes a folder and the missing ones above it, and syncs their parents, so that a power loss does not undo it. */
export async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  // The parent is synced even if the folder was there: the process that made it may have ended before its sync.
  const last = dirname(first ?? folder);
  for (let above = folder; above !== last; ) {
    above = dirname(above);
    await syncFolder(above);
  }
}

/** Syncs the entries of a folder, so that its files survive a power loss. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } catch (error) {
    // Some file systems have no sync of folders; SQLite ignores that as well.
    if (!['EINVAL', 'ENOTSUP'].includes((error as NodeJS.ErrnoException).code!)) throw error;
  } finally {
    await handle.close();
  }
}
