import { randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Returns a random name of this machine, made by its first worker and stored in a file: machines are given the same
 * host name more often than operators know. Returns null where nothing can be stored.
 * @param path null: there is no folder for it
 */
export async function machineId(path: string | null): Promise<string | null> {
  if (path === null) return null;
  try {
    await mkdir(dirname(path), { recursive: true });
    // Another worker of this machine may be writing the file at the same time: the first one counts.
    await writeFile(path, `${randomUUID()}\n`, { flag: 'wx' }).catch(() => {});
    return (await readFile(path, 'utf8')).trim().slice(0, 64) || null;
  } catch {
    return null;
  }
}
