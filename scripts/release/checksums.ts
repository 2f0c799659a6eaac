import { createHash } from 'node:crypto';
import { createReadStream, globSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Writes SHA256SUMS over all files of a folder, as `sha256sum --check` reads it.
 * @returns the paths of the files in order, as seen from the folder, with their sizes in bytes
 */
export async function writeChecksums(folder: string): Promise<Record<string, number>> {
  const files = globSync('**', { cwd: folder })
    .filter((path) => statSync(join(folder, path)).isFile())
    .sort();
  let lines = '';
  for (const path of files) lines += `${await sha256(join(folder, path))}  ${path}\n`;
  writeFileSync(join(folder, 'SHA256SUMS'), lines);
  return Object.fromEntries(files.map((path) => [path, statSync(join(folder, path)).size]));
}

/** An image may have ten gigabytes, so it is read in parts. */
async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of createReadStream(path)) hash.update(part);
  return hash.digest('hex');
}
