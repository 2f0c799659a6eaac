import { copyFile, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { EXIT, UserError } from '../../process/index.ts';
import { manifest as ownPackage } from '../../process/package.ts';
import { checkDatabases, type DatabaseReport } from '../check.ts';
import { makeFolder, stateFolderError } from '../folder.ts';
import { loadSqlite } from '../sqlite.ts';
import {
  MANIFEST,
  type Manifest,
  SINGLE_FILES,
  syncedSha256,
  syncFoldersOf,
  writeManifest,
} from './manifest.ts';
import { openSnapshot, type SnapshotDatabase } from './snapshot.ts';

/** The number of pages that are copied between two reports of the progress. */
const PAGES_A_STEP = 256;

export interface Backup {
  /** The moment of the copied state, ISO 8601. */
  takenAt: string;
  bytes: number;
  reports: DatabaseReport[];
}

/**
 * Copies the state of a queue, which may be running, into an empty folder: all databases as they were at one moment,
 * and the files beside them. The copy has everything that was acknowledged before the call.
 * @param progress is called repeatedly with bytes
 * @throws UserError when there is nothing to copy, the folder is not empty, cannot be written, or a database is damaged
 */
export async function takeBackup(
  stateDir: string,
  folder: string,
  progress: (done: number, total: number) => void,
): Promise<Backup> {
  const dataDir = join(stateDir, 'data');
  if (!(await stat(dataDir).catch(() => null))) {
    throw new UserError(
      `${stateDir} holds no state of a queue. Name its folder (WORKER_VLLM_STATE or --state).`,
    );
  }
  await makeEmpty(folder);
  try {
    const snapshot = await openSnapshot(dataDir);
    const takenAt = new Date().toISOString();
    const singles = await copySingles(stateDir, folder);
    await copyAll(snapshot, join(folder, 'data'), progress);
    const reports = await checkDatabases(folder, 'full');
    const damaged = reports.find(({ problem }) => problem !== null);
    if (damaged) throw damagedError(stateDir, damaged);
    const files = await filesOf(folder, [...singles, ...snapshot.map(({ path }) => join('data', path))]);
    await writeManifest(folder, { version: ownPackage.version, taken_at: takenAt, files });
    return { takenAt, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0), reports };
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw stateFolderError(`copy ${stateDir} to ${folder}`, folder, error);
  }
}

function damagedError(stateDir: string, { path, problem }: DatabaseReport): UserError {
  return new UserError(
    `The copy ${path} ${problem?.text}. "npx worker-vllm state check --state ${stateDir}" says more of the folder.`,
    EXIT.badState,
  );
}

/** Makes a folder that must be empty. @throws UserError if it is not */
async function makeEmpty(folder: string): Promise<void> {
  let found: string[];
  try {
    await makeFolder(folder);
    found = await readdir(folder);
  } catch (error) {
    throw stateFolderError('make the folder of the backup', folder, error);
  }
  if (found.length === 0) return;
  const isHalf = found.includes('data') && !found.includes(MANIFEST);
  throw new UserError(
    `${folder} is not empty${isHalf ? ': a backup there was ended before it was done. Remove it, or name' : '. Name'} a folder that is, or that is not there yet.`,
  );
}

async function copySingles(stateDir: string, folder: string): Promise<string[]> {
  const there = new Set(await readdir(stateDir));
  const names = SINGLE_FILES.filter((name) => there.has(name));
  for (const name of names) await copyFile(join(stateDir, name), join(folder, name));
  return names;
}

async function copyAll(
  snapshot: SnapshotDatabase[],
  folder: string,
  progress: (done: number, total: number) => void,
): Promise<void> {
  const { backup } = loadSqlite();
  const total = snapshot.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  for (const { path, bytes, reader } of snapshot) {
    await makeFolder(dirname(join(folder, path)));
    await backup(reader, join(folder, path), {
      rate: PAGES_A_STEP,
      progress: ({ totalPages, remainingPages }) =>
        progress(done + (bytes * (totalPages - remainingPages)) / Math.max(1, totalPages), total),
    });
    reader.close();
    done += bytes;
    progress(done, total);
  }
}

async function filesOf(folder: string, paths: string[]): Promise<Manifest['files']> {
  const files: Manifest['files'] = [];
  for (const path of paths) {
    const sha256 = await syncedSha256(join(folder, path));
    files.push({ path, bytes: (await stat(join(folder, path))).size, sha256 });
  }
  await syncFoldersOf(paths.map((path) => join(folder, path)));
  return files;
}
