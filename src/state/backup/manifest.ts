import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, open, readdir, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { EXIT, UserError } from '../../process/index.ts';

/** Its presence says that a backup is whole: it is written last. */
export const MANIFEST = 'backup.json';

/** Files that a state folder has beside its databases, and that a backup takes along where they are there. */
export const SINGLE_FILES = ['tokens.json', 'file-key-secret'];

/** Matches the paths of databases: a folder for each queue (state/queue-folder.ts). */
const DATABASE = /^data(?:\/(?!\.)[\w.%~-]+)+\.sqlite$/;

/** A backup may come from somebody else: nothing is written but what a state folder has. */
function isPathOfState(path: string): boolean {
  return SINGLE_FILES.includes(path) || DATABASE.test(path);
}

/** What a backup holds. */
const Manifest = z.object({
  /** Version of worker-vllm that took it. */
  version: z.string(),
  /** The moment that it is of, ISO 8601. */
  taken_at: z.string(),
  files: z.array(
    z.object({
      /** Below the backup's folder, and below the state folder. */
      path: z.string().refine(isPathOfState, 'expected a file that a state folder has'),
      bytes: z.number().int().min(0),
      sha256: z.string(),
    }),
  ),
  /** SHA-256 of the list of files, so that a list with an entry taken out is refused. */
  files_sha256: z.string(),
});
export type Manifest = z.infer<typeof Manifest>;

/** Puts the last file into a backup, after all others are on the disk. */
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
 * Reads what a backup holds and looks whether all of it is there, byte by byte.
 * @throws UserError where it is no backup, half of one, or damaged
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

/** @throws UserError where the list has lost an entry, or names a file twice */
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
