import { chmod, copyFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UserError } from '../process/index.ts';
import { checkDatabases } from './check.ts';
import { lockState, makeFolder, RESTORING, stateFolderError } from './folder.ts';
import { type Manifest, readManifest, syncedSha256, syncFolder, syncFoldersOf } from './manifest.ts';

/** The entries that an unused folder may have: a volume's own, and those that locking leaves. */
const NOTHING = new Set(['lost+found', 'lock', 'lock.pids', 'data']);

/**
 * Makes a state folder from a backup, which is verified first. No queue starts on the folder until all of it is there.
 * @param progress called repeatedly with the bytes restored
 * @throws UserError if the backup is not whole or of another version, or the folder is not empty
 */
export async function restoreBackup(
  folder: string,
  stateDir: string,
  progress: (done: number, total: number) => void,
): Promise<Manifest> {
  const manifest = await readManifest(folder);
  const unusable = (await checkDatabases(folder, 'start')).find(({ problem }) => problem !== null);
  if (unusable?.problem) {
    const { path, problem } = unusable;
    const hint =
      problem.kind === 'version' ? ` It was taken by worker-vllm ${manifest.version}: use that.` : '';
    throw new UserError(`${path} ${problem.text}. Nothing was restored.${hint}`);
  }
  try {
    await requireEmpty(stateDir);
    await makeFolder(join(stateDir, 'data'));
    const lock = await lockState(stateDir);
    try {
      // The folder is checked again: a queue may have been started on it before it was locked.
      await requireEmpty(stateDir);
      await copyAll(manifest, folder, stateDir, progress);
    } finally {
      lock.release();
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw stateFolderError(`restore to ${stateDir}`, stateDir, error);
  }
  return manifest;
}

/** Checks that the folder is empty. @throws UserError if it is not */
async function requireEmpty(stateDir: string): Promise<void> {
  const found = await namesIn(stateDir);
  if (found.includes(RESTORING)) {
    throw new UserError(
      `A restore to ${stateDir} was ended before it was done: empty the folder, then restore again.`,
    );
  }
  const states =
    found.some((name) => !NOTHING.has(name)) || (await namesIn(join(stateDir, 'data'))).length > 0;
  if (!states) return;
  throw new UserError(
    `${stateDir} is not empty, and nothing in it is overwritten: move it aside, or name another folder (WORKER_VLLM_STATE or --state).`,
  );
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

async function copyAll(
  { files }: Manifest,
  folder: string,
  stateDir: string,
  progress: (done: number, total: number) => void,
): Promise<void> {
  const mark = join(stateDir, RESTORING);
  await writeFile(mark, '');
  await syncFolder(stateDir);
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  for (const { path, bytes } of files) {
    const to = join(stateDir, path);
    await makeFolder(dirname(to));
    await copyFile(join(folder, path), to);
    await chmod(to, 0o600);
    await syncedSha256(to);
    done += bytes;
    progress(done, total);
  }
  await syncFoldersOf(files.map(({ path }) => join(stateDir, path)));
  await rm(mark);
  await syncFolder(stateDir);
}
