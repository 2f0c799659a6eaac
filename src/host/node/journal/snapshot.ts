import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { STATE_VERSION } from '../../../durable/ports.ts';
import { EXIT, UserError } from '../../../process/index.ts';
import { openSnapshot, type SnapshotDatabase } from '../../../state/backup.ts';
import { fileKeySecret, storeFileKeySecret } from '../../../state/folder.ts';
import { loadSqlite } from '../../../state/sqlite.ts';
import { syncFolder } from '../storage/files.ts';
import { DATABASE } from './entry.ts';
import { CHUNK_BYTES, type Journal, type Place, type Snapshot, type SnapshotChunk } from './journal.ts';
import { writePlace } from './place.ts';

/** The first part of a snapshot: what its databases belong to. */
const Head = z.object({
  journal: z.string(),
  epoch: z.number().int(),
  stateVersion: z.number().int(),
  fileKeySecret: z.string(),
});
type Head = z.output<typeof Head>;

const HEAD = 'snapshot.json';

/** The folder of the databases that an owner left behind; of several, the newest is kept. */
const MOVED_ASIDE = 'data.before-';

/**
 * Stores the databases of a state folder, which may be written meanwhile, as a snapshot.
 * @param placeOf returns the entry that the databases have reached, in the turn in which it is called; the snapshot
 *   waits for the promise before it is stored
 */
export async function saveSnapshot(
  journal: Journal,
  stateDir: string,
  id: string,
  placeOf: () => Place | Promise<Place>,
): Promise<Place> {
  let place: Place | Promise<Place> = { seq: 0, epoch: 0 };
  const databases = await openSnapshot(join(stateDir, 'data'), () => {
    place = placeOf();
  });
  try {
    await assertRoom(stateDir, Math.max(0, ...databases.map(({ bytes }) => bytes)));
    const { seq, epoch } = await place;
    const head: Head = {
      journal: id,
      epoch,
      stateVersion: STATE_VERSION,
      fileKeySecret: await fileKeySecret(stateDir),
    };
    await journal.saveSnapshot({ seq, chunks: chunksOf(head, databases, join(stateDir, 'snapshot.new')) });
    return { seq, epoch };
  } finally {
    for (const { reader } of databases) if (reader.isOpen) reader.close();
    await rm(join(stateDir, 'snapshot.new'), { recursive: true, force: true });
  }
}

/** Checks that a copy leaves room for the databases themselves. @throws UserError */
async function assertRoom(stateDir: string, bytes: number): Promise<void> {
  const { bavail, bsize, blocks } = await statfs(stateDir);
  // Some file systems tell nothing of their size.
  if (blocks === 0 || bavail * bsize > bytes) return;
  throw new UserError(
    `A snapshot of the journal needs a copy of the largest database, ${bytes} bytes, and the disk of ${stateDir} has ` +
      `${bavail * bsize} bytes free. Make room on it.`,
  );
}

async function* chunksOf(
  head: Head,
  databases: SnapshotDatabase[],
  folder: string,
): AsyncGenerator<SnapshotChunk> {
  yield { name: HEAD, bytes: Buffer.from(JSON.stringify(head)) };
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const copy = join(folder, 'database');
  for (const { path, reader } of databases) {
    const name = path.replaceAll('\\', '/');
    // An operator may have put a copy beside a database.
    if (!DATABASE.test(name)) continue;
    await rm(copy, { force: true });
    // VACUUM INTO would give rows other ids than the owner's have.
    await loadSqlite().backup(reader, copy);
    reader.close();
    for await (const bytes of createReadStream(copy, { highWaterMark: CHUNK_BYTES })) yield { name, bytes };
  }
}

/**
 * Makes the databases of a state folder anew from the newest snapshot; from nothing if there is none. The ones that
 * are there are moved aside. A snapshot before the first entry that another queue stored counts as none: that queue
 * was about to begin the journal, and the queue of the first entry was faster.
 * @param id the id of the journal
 * @throws UserError if the snapshot belongs to another journal, or to a newer version
 */
export async function restoreSnapshot(journal: Journal, stateDir: string, id: string): Promise<Place> {
  const snapshot = await journal.newestSnapshot();
  const made = join(stateDir, 'data.new');
  await rm(made, { recursive: true, force: true });
  await mkdir(made, { recursive: true, mode: 0o700 });
  const place = (snapshot && (await writeFiles(snapshot, stateDir, made, id))) ?? { seq: 0, epoch: 0 };
  // Until the end, the folder counts as one that has to be made anew.
  await writePlace(stateDir, { journal: id, seq: 0, epoch: 0, mayBeAhead: true });
  await moveAside(stateDir);
  await rename(made, join(stateDir, 'data'));
  await writePlace(stateDir, { journal: id, ...place, mayBeAhead: false });
  return place;
}

/** Moves the databases of a state folder aside, and removes those that were moved aside before. */
async function moveAside(stateDir: string): Promise<void> {
  const names = await readdir(stateDir);
  if (!names.includes('data')) return;
  const isEmpty = (await readdir(join(stateDir, 'data'))).length === 0;
  if (isEmpty) return await rm(join(stateDir, 'data'), { recursive: true });
  for (const name of names)
    if (name.startsWith(MOVED_ASIDE)) await rm(join(stateDir, name), { recursive: true, force: true });
  const time = new Date().toISOString().replaceAll(/[:.]/g, '-');
  await rename(join(stateDir, 'data'), join(stateDir, `${MOVED_ASIDE}${time}`));
}

/** Returns the place of the snapshot; null if another queue stored it before the first entry. */
async function writeFiles(
  { seq, chunks }: Snapshot,
  stateDir: string,
  folder: string,
  id: string,
): Promise<Place | null> {
  let head: Head | null = null;
  const files = new FilesInTurn(folder);
  try {
    for await (const { name, bytes } of chunks) {
      if (name === HEAD) {
        head = Head.parse(JSON.parse(Buffer.from(bytes).toString()));
        if (head.journal !== id && seq === 0) return null;
        if (head.journal !== id) throw usedByTwo();
        checkVersion(head.stateVersion);
      } else if (head !== null && DATABASE.test(name)) await files.write(name, bytes);
      else throw new Error(`a snapshot has no ${name}`);
    }
  } finally {
    await files.close();
  }
  if (head === null) throw new Error('the snapshot is empty');
  for (const name of await readdir(folder)) await syncFolder(join(folder, name));
  await syncFolder(folder);
  await storeFileKeySecret(stateDir, head.fileKeySecret);
  return { seq, epoch: head.epoch };
}

/** Writes files one after another. */
class FilesInTurn {
  readonly #folder: string;
  #name = '';
  #file: FileHandle | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async write(name: string, bytes: Uint8Array): Promise<void> {
    if (this.#file === null || name !== this.#name) {
      await this.close();
      this.#name = name;
      const path = join(this.#folder, name);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      this.#file = await open(path, 'wx', 0o600);
    }
    await this.#file.writeFile(bytes);
  }

  async close(): Promise<void> {
    await this.#file?.sync();
    await this.#file?.close();
    this.#file = null;
  }
}

/** Returns the id of the journal that the newest snapshot belongs to; null: there is no snapshot. */
export async function snapshotOwner(journal: Journal): Promise<string | null> {
  const snapshot = await journal.newestSnapshot();
  if (snapshot === null) return null;
  for await (const { bytes } of snapshot.chunks)
    return Head.parse(JSON.parse(Buffer.from(bytes).toString())).journal;
  return null;
}

/** Returns the error of a queue that finds in its journal what another queue wrote. */
export function usedByTwo(): UserError {
  return new UserError(
    'The journal has entries or a snapshot of another queue, so two queues have used one journal. ' +
      'Give each an address of its own (QUEUE_JOURNAL or --journal).',
    EXIT.badState,
  );
}

/** Refuses what a newer version wrote. @throws UserError */
export function checkVersion(stateVersion: number): void {
  if (stateVersion <= STATE_VERSION) return;
  throw new UserError(
    `The journal was written by a newer version of worker-vllm (state version ${stateVersion}, this one reads up to ` +
      `${STATE_VERSION}). Start that version here: docs/upgrading.md has the order.`,
  );
}
