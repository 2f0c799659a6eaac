import { EXIT, UserError } from '../../../process/index.ts';
import { decode } from './entry.ts';
import type { Journal, Place } from './journal.ts';
import type { LocalPlace } from './place.ts';
import { snapshotOwner } from './snapshot.ts';

/** Returns the id of a journal; null: it is empty. */
export async function idOf(journal: Journal): Promise<string | null> {
  const [first] = await journal.read(0, 1);
  const content = first?.seq === 1 ? decode(first.body) : null;
  return content?.kind === 'owner' ? content.journal : await snapshotOwner(journal);
}

/** Returns whether the journal has the entry of a place; at 0, whether it still has its first entry, or none yet. */
export async function isOn(journal: Journal, { seq, epoch }: Place): Promise<boolean> {
  const [found] = await journal.read(Math.max(0, seq - 1), 1);
  if (seq === 0) return found === undefined || found.seq === 1;
  return found?.seq === seq && found.epoch === epoch;
}

interface Found {
  local: LocalPlace | null;
  hasData: boolean;
  last: Place;
  id: string | null;
}

export function journalEndsBefore(last: Place, seq: number, stateDir: string): UserError {
  return new UserError(
    `The journal ends at entry ${last.seq}, and the state folder ${stateDir} has entry ${seq}: the server of ` +
      'the journal has lost entries, or it is an empty one. To go on from the folder, remove its journal-at.json and ' +
      'name an empty journal; to go on from the journal, name another folder.',
    EXIT.badState,
  );
}

/** Checks that a state folder and a journal belong together. @throws UserError if they do not */
export function checkBelongs(stateDir: string, { local, hasData, last, id }: Found): void {
  const refuse = (text: string) => {
    throw new UserError(text, EXIT.badState);
  };
  if (local !== null && id !== null && local.journal !== id) {
    refuse(
      `The state folder ${stateDir} follows another journal than this one. ` +
        'Name the journal of this queue (QUEUE_JOURNAL or --journal), or another folder (WORKER_VLLM_STATE or --state).',
    );
  }
  if (local === null && hasData && id !== null) {
    refuse(
      `The state folder ${stateDir} holds the state of a queue without this journal, which has entries of its own. ` +
        'Name an empty folder (WORKER_VLLM_STATE or --state), or an empty journal (QUEUE_JOURNAL or --journal).',
    );
  }
  if (local !== null && last.seq < local.seq && !local.mayBeAhead)
    throw journalEndsBefore(last, local.seq, stateDir);
  if (local?.mayBeAhead && last.seq === 0) {
    refuse(
      `The journal is empty, and the state folder ${stateDir} has followed one. To begin this journal with the ` +
        "folder's state, remove its journal-at.json.",
    );
  }
}
