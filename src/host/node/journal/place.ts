import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { EXIT, UserError } from '../../../process/index.ts';
import { syncFolder } from '../storage/files.ts';

/** How far the files of a state folder follow which journal. */
const LocalPlace = z.object({
  /** The id of the journal. */
  journal: z.string(),
  /** The entry up to which the files have everything; each database may have more, and knows how much. */
  seq: z.number().int().min(0),
  epoch: z.number().int().min(0),
  /**
   * Whether an owner writes the files, or has ended without order: they may have commits that the journal has not, and
   * are then of no use.
   */
  mayBeAhead: z.boolean(),
});
export type LocalPlace = z.output<typeof LocalPlace>;

const NAME = 'journal-at.json';

/** Returns the place of a state folder; null: it has never followed a journal. @throws UserError if it is unreadable */
export async function readPlace(stateDir: string): Promise<LocalPlace | null> {
  const path = join(stateDir, NAME);
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (text === null) return null;
  try {
    return LocalPlace.parse(JSON.parse(text));
  } catch {
    throw new UserError(
      `${path} is damaged. Remove the state folder, so that it is made again from the journal, or name another one ` +
        '(WORKER_VLLM_STATE or --state).',
      EXIT.badState,
    );
  }
}

/**
 * Refuses a state folder that follows a journal to a queue without one: what that queue would store is in no journal.
 * @throws UserError
 */
export async function assertFollowsNone(stateDir: string): Promise<void> {
  if ((await readPlace(stateDir)) === null) return;
  throw new UserError(
    `The state folder ${stateDir} follows a journal, and this queue has none. Name that journal (QUEUE_JOURNAL or ` +
      `--journal), or another folder (WORKER_VLLM_STATE or --state). To go on with this folder and without a journal, ` +
      `remove ${NAME} in it: only the folder of the last owner has everything.`,
    EXIT.badState,
  );
}

/** Stores the place of a state folder, which is on disk when the promise resolves. */
export async function writePlace(stateDir: string, place: LocalPlace): Promise<void> {
  const path = join(stateDir, NAME);
  const file = await open(`${path}.new`, 'w', 0o600);
  try {
    await file.writeFile(`${JSON.stringify(place)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  await syncFolder(stateDir);
}
