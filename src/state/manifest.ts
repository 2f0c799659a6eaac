import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, open, readdir, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { EXIT, UserError } from '../process/index.ts';

/** The manifest of a backup. It is written last, so its presence shows that the backup is whole. */
export const MANIFEST = 'backup.json';

/** The files beside the databases of a state folder that a backup includes if they exist. */
export const SINGLE_FILES = ['tokens.json', 'file-key-secret'];

/** Matches the paths of databases: a folder for each queue (state/folder.ts). */
const DATABASE = /^data(?:\/(?!\.)[\w.%~-]+)+\.sqlite$/;

/**
 * Returns whether a state folder has such a file. A backup may come from somebody else, and must write no other files.
 */
function isPathOfState(path: string): boolean {
  return SINGLE_FILES.includes(path) || DATABASE.test(path);
}

/** The content of a backup. */
const Manifest = z.object({
  /** The version of worker-vllm that took the backup. */
  version: z.string(),
  /** The moment of the backup's state, ISO 8601. */
  taken_at: z.string(),
  files: z.array(
    z.object({
      /** The path below the backup's folder, the same as below the state folder. */
      path: z.string().refine(isPathOfState, 'expected a file that a state folder has'),
      bytes: z.number().int().min(0),
      sha256: z.string(),
    }),
  ),
  /** The SHA-256 of the list of files, so that a list that lacks an entry is refused. */
  files_sha256: z.string(),
});
export type Manifest = z.infer<typeof Manifest>;

/** Writes the manifest, the last file of a backup, once all others are on the disk. */
export async function writeManifest(folder: string, manifest: Omit<Manifest, 'files_sha256'>): Promise<void> {
  const path = join(folder, MANIFEST);
  const file = await open(`${path}.new`, 'w', 0o600);
  const whole: Manifest = { ...manifest, files_sha256: sha256OfList(manifest.files) };
  await file.writeFile(`${JSON.stringify(whole, null, 2)}\n`);
  await file.sync();
  await file.close();
  await rename(`${path}.new`, path);
  await syncFolder(folder);
}

/**
 * Reads the manifest of a backup and verifies all files, byte by byte.
 * @throws UserError if the folder is no backup, half of one, or damaged
 */
export async function readManifest(folder: string): Promise<Manifest> {
  const manifest = await parsed(folder);
  await requireWholeList(folder, manifest);
  for (const { path, bytes, sha256 } of manifest.files) {
    const size = await sizeOf(folder, path);
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

/** Checks the list of files. @throws UserError if it has lost an entry, or names a file twice */
async function requireWholeList(folder: string, { files, files_sha256 }: Manifest): Promise<void> {
  const listed = new Set(files.map(({ path }) => path));
  const found = [...(await readdir(folder)), ...(await databasesBelow(folder))];
  const unlisted = found.find((path) => isPathOfState(path) && !listed.has(path));
  if (unlisted === undefined && listed.size === files.length && sha256OfList(files) === files_sha256) return;
  const what = unlisted === undefined ? '' : `: it does not name ${unlisted}`;
  throw new UserError(
    `The backup ${folder} is damaged: the list of files in its ${MANIFEST} is not as it was written${what}. Nothing was restored.`,
    EXIT.badState,
  );
}

async function databasesBelow(folder: string): Promise<string[]> {
  const names = await readdir(join(folder, 'data'), { recursive: true }).catch(() => []);
  return names.map((name) => join('data', name));
}

/**
 * Returns the bytes of a file; undefined: it is not there.
 * @throws UserError for a link, whose target is no part of the backup
 */
async function sizeOf(folder: string, path: string): Promise<number | undefined> {
  const parts = path.split('/');
  let size: number | undefined;
  for (const index of parts.keys()) {
    const found = await lstat(join(folder, ...parts.slice(0, index + 1))).catch(() => null);
    if (found === null) return undefined;
    const isExpected = index + 1 === parts.length ? found.isFile() : found.isDirectory();
    if (!isExpected) {
      throw new UserError(
        `The backup ${folder} is damaged: ${path} is, or lies behind, a link or something else that is no file. Nothing was restored.`,
        EXIT.badState,
      );
    }
    size = found.size;
  }
  return size;
}

function sha256OfList(files: Manifest['files']): string {
  const list = files.map(({ path, bytes, sha256 }) => [path, bytes, sha256]);
  return createHash('sha256').update(JSON.stringify(list)).digest('hex');
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

/** Syncs a file and returns its SHA-256, lower-case hex. */
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

/** Syncs the folders of these files, so that their names are on the disk. */
export async function syncFoldersOf(files: string[]): Promise<void> {
  for (const folder of new Set(files.map(dirname))) await syncFolder(folder);
}

/** Syncs a folder, so that the names in it are on the disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  await folder.sync();
  await folder.close();
}
