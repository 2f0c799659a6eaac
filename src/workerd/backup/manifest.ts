import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { EXIT, UserError } from '../../process/index.ts';

/** Its presence says that a backup is whole: it is written last. */
export const MANIFEST = 'backup.json';

/** What a backup holds. */
const Manifest = z.object({
  /** Version of worker-vllm that took it. */
  version: z.string(),
  /** The moment that it is of, ISO 8601. */
  taken_at: z.string(),
  files: z.array(
    z.object({
      /** Below the backup's folder, and below the state folder. */
      path: z.string().regex(/^(?!\/)(?!.*\.\.)/),
      bytes: z.number(),
      sha256: z.string(),
    }),
  ),
});
export type Manifest = z.infer<typeof Manifest>;

/** Files that a state folder has beside its databases, and that a backup takes along where they are there. */
export const SINGLE_FILES = ['tokens.json', 'file-key-secret'];

/** Puts the last file into a backup, after all others are on the disk. */
export async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  const path = join(folder, MANIFEST);
  const file = await open(`${path}.new`, 'w', 0o600);
  await file.writeFile(`${JSON.stringify(manifest, null, 2)}\n`);
  await file.sync();
  await file.close();
  await rename(`${path}.new`, path);
  await syncFolder(folder);
}

/**
 * Reads what a backup holds and looks whether all of it is there, byte by byte.
 * @throws UserError where it is no backup, half of one, or damaged
 */
export async function readManifest(folder: string): Promise<Manifest> {
  const manifest = await parsed(folder);
  for (const { path, bytes, sha256 } of manifest.files) {
    const size = (await stat(join(folder, path)).catch(() => null))?.size;
    if (size !== bytes || (await sha256Of(join(folder, path))) !== sha256) {
      const what = size === undefined ? 'is missing' : 'is not as it was written';
      throw new UserError(
        `The backup ${folder} is damaged: ${path} ${what}. Nothing was restored.`,
        EXIT.badState,
      );
    }
  }
  return manifest;
}

async function parsed(folder: string): Promise<Manifest> {
  let text: string;
  try {
    text = await readFile(join(folder, MANIFEST), 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw new UserError(`Cannot read the backup ${folder}: ${message}.`);
    throw new UserError(
      `${folder} is not a whole backup: it has no ${MANIFEST}, which is written last. Restore another one.`,
      EXIT.badState,
    );
  }
  try {
    return Manifest.parse(JSON.parse(text));
  } catch {
    throw new UserError(`${join(folder, MANIFEST)} is not what a backup has there.`, EXIT.badState);
  }
}

/** Of a file, after its bytes are on the disk. Lower-case hex. */
export async function syncedSha256(path: string): Promise<string> {
  const file = await open(path);
  await file.sync();
  await file.close();
  return await sha256Of(path);
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Uint8Array);
  return hash.digest('hex');
}

/** Has the names of these files on the disk. */
export async function syncFoldersOf(files: string[]): Promise<void> {
  for (const folder of new Set(files.map(dirname))) await syncFolder(folder);
}

/** Has the names in a folder on the disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  await folder.sync();
  await folder.close();
}
