import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Log } from '../../../durable/host.ts';
import { STATE_VERSION } from '../../../durable/ports.ts';
import { EXIT, UserError } from '../../../process/index.ts';
import { fileKeySecret, makeFolder, storeFileKeySecret } from '../../../state/folder.ts';
import { checkBelongs, idOf, isOn, journalEndsBefore } from './belonging.ts';
import { decode, encode } from './entry.ts';
import { LEASE_MS } from './held-lease.ts';
import { type Entry, type Journal, type Place, Taken } from './journal.ts';
import { appendAgain, isSame, KeptEntries } from './kept-entries.ts';
import { type LocalPlace, readPlace, writePlace } from './place.ts';
import { Diverged, forgetApplied, Replica } from './replica.ts';
import { checkVersion, restoreSnapshot, saveSnapshot, snapshotOwner, usedByTwo } from './snapshot.ts';

/** The most entries that are applied in one turn. */
const MOST_AT_ONCE = 500;
/** The place of the files is stored at most this often, ms. */
const SAVE_EVERY_MS = 5000;

export interface FollowerParts {
  journal: Journal;
  /** The state folder, which this process has locked. */
  stateDir: string;
  log: Log;
}

/** The entry with which a process has become the owner. */
export interface Claim {
  /** The id of the journal. */
  journal: string;
  entry: Entry;
  address: string;
  /** The time of `performance.now()` before the lease was set. */
  renewedAt: number;
  /** The entries before it. */
  kept: KeptEntries;
}

/** Keeps the files of a state folder at the end of the journal, until this process becomes the owner. */
export class Follower {
  readonly #parts: FollowerParts;
  /** The id of the journal; null: nobody had begun it when it was last read. */
  #id: string | null;
  #replica: Replica;
  readonly #kept = new KeptEntries();
  #savedAt = performance.now();
  #saved: number;
  /** The place at which the files were last made again while following; null: they never were. */
  #madeAt: number | null = null;

  private constructor(parts: FollowerParts, id: string | null, place: Place) {
    this.#parts = parts;
    this.#id = id;
    this.#replica = new Replica(join(parts.stateDir, 'data'), place);
    this.#saved = place.seq;
  }

  /**
   * Brings the files of a state folder to a place in the journal: where they were, or at its newest snapshot. Files
   * that are there at the first start become the journal's first snapshot.
   * @throws UserError if folder and journal do not belong together
   */
  static async open(parts: FollowerParts): Promise<Follower> {
    const { journal, stateDir, log } = parts;
    await makeFolder(join(stateDir, 'data'));
    const local = await readPlace(stateDir);
    const hasData = (await readdir(join(stateDir, 'data'))).length > 0;
    const last = await journal.last();
    const id = await idOf(journal);
    checkBelongs(stateDir, { local, hasData, last, id });
    if (last.seq === 0) return new Follower(parts, await beginJournal(parts, local, hasData), last);
    if (local && !local.mayBeAhead && (await isOn(journal, local)))
      return new Follower(parts, local.journal, local);
    const isSaved = hasData ? 'the ones that were there are moved aside' : 'there were none';
    log('info', `the databases are made from the journal; ${isSaved}`, {});
    return new Follower(parts, id, await restoreSnapshot(journal, stateDir, id!));
  }

  /** The last entry that the files have. */
  get place(): Place {
    return this.#replica.place;
  }

  /** The id of the journal; null: it is empty. */
  get id(): string | null {
    return this.#id;
  }

  /** Applies all entries that are there. */
  async catchUp(): Promise<void> {
    for (;;) {
      const entries = await this.#parts.journal.read(this.place.seq, MOST_AT_ONCE);
      if (entries.length === 0) break;
      if (this.#id === null) {
        this.#id = await this.#join();
        if (this.#id === null) throw withoutBeginning();
        continue;
      }
      await this.#apply(entries);
      for (const entry of entries) this.#kept.add(entry, performance.now());
      await this.#saveSometimes();
    }
    await this.#saveSometimes();
  }

  /**
   * Applies what is new, and tries to become the owner. Nobody may hold the lease.
   * @param address at which others are told that the owner is reached
   * @returns null if another process was faster, since the files were last at the end of the journal
   */
  async claim(address: string): Promise<Claim | null> {
    const { journal, stateDir } = this.#parts;
    const before = this.place.epoch;
    await this.catchUp();
    // The process that has just become the owner would be replaced, and would end.
    if (this.place.epoch !== before) return null;
    // The id stays open: until the first entry is there, another process may begin the journal under another one.
    const id = this.#id ?? (await this.#join()) ?? randomUUID();
    const after = this.place;
    await this.#restore(after);
    const epoch = after.epoch + 1;
    const body = encode({
      kind: 'owner',
      journal: id,
      owner: randomUUID(),
      after: { seq: after.seq, epoch: after.epoch },
      stateVersion: STATE_VERSION,
      fileKeySecret: await fileKeySecret(stateDir),
    });
    const renewedAt = performance.now();
    if (!(await journal.renewLease({ epoch, address }, LEASE_MS))) return null;
    const entry: Entry = { seq: after.seq + 1, epoch, body };
    if (!(await appendOnce(journal, entry))) return null;
    await this.#replica.sync();
    this.#replica.close();
    await writePlace(stateDir, { journal: id, seq: entry.seq, epoch, mayBeAhead: true });
    return { journal: id, entry, address, renewedAt, kept: this.#kept };
  }

  /** Stores a snapshot of the files while it goes on following. @returns its place */
  async saveSnapshot(): Promise<Place> {
    const { journal, stateDir } = this.#parts;
    return await saveSnapshot(journal, stateDir, this.#id!, () => this.place);
  }

  /** Stores the place of the files, and closes them. */
  async close(): Promise<void> {
    await this.#save();
    this.#replica.close();
  }

  /**
   * Appends again what the server of the journal has lost although these files have it.
   * @throws UserError if it is too much
   */
  async #restore({ seq, epoch }: Place): Promise<void> {
    const { journal, stateDir, log } = this.#parts;
    const last = await journal.last();
    if (last.seq >= seq || last.epoch > epoch) return;
    const missing = this.#kept.between(last.seq, seq);
    if (missing === null) throw journalEndsBefore(last, seq, stateDir);
    await appendAgain(journal, missing, log);
  }

  /**
   * Makes the files of a journal that was empty when this process opened it, once somebody has begun it: from its
   * snapshot, since a queue that had data began it by one.
   * @returns the id of the journal; null, and does nothing, if nobody has begun it
   */
  async #join(): Promise<string | null> {
    const { journal, stateDir } = this.#parts;
    const id = await idOf(journal);
    if (id === null) return null;
    this.#replica.close();
    this.#replica = new Replica(join(stateDir, 'data'), await restoreSnapshot(journal, stateDir, id));
    return id;
  }

  async #apply(entries: readonly Entry[]): Promise<void> {
    const { journal, stateDir, log } = this.#parts;
    for (const { body } of entries) await this.#check(body);
    try {
      this.#replica.apply(entries);
    } catch (error) {
      if (!(error instanceof Diverged)) throw error;
      log(
        'warn',
        'the files do not follow the journal any more, and are made again from its newest snapshot',
        {
          error: error.message,
        },
      );
      this.#replica.close();
      const failedAt = this.place.seq;
      const place = await restoreSnapshot(journal, stateDir, this.#id!);
      this.#replica = new Replica(join(stateDir, 'data'), place);
      // Files that fail where they were made would fail there again.
      if (failedAt === this.#madeAt && place.seq === failedAt) throw unusable(error);
      this.#madeAt = place.seq;
    }
  }

  async #check(body: Uint8Array): Promise<void> {
    const content = decode(body);
    if (content.kind !== 'closed') checkVersion(content.stateVersion);
    if (content.kind !== 'owner') return;
    if (content.journal !== this.#id) throw usedByTwo();
    await storeFileKeySecret(this.#parts.stateDir, content.fileKeySecret);
  }

  async #saveSometimes(): Promise<void> {
    if (this.place.seq === this.#saved || performance.now() - this.#savedAt < SAVE_EVERY_MS) return;
    await this.#save();
  }

  async #save(): Promise<void> {
    this.#savedAt = performance.now();
    if (this.#id === null) return;
    const { seq, epoch } = await this.#replica.sync();
    await writePlace(this.#parts.stateDir, { journal: this.#id, seq, epoch, mayBeAhead: false });
    this.#saved = seq;
  }
}

function withoutBeginning(): UserError {
  return new UserError(
    'The journal has entries, but neither its first one nor a snapshot, so its files cannot be made. ' +
      "Begin an empty journal with the last owner's state folder.",
    EXIT.badState,
  );
}

function unusable({ message }: Diverged): UserError {
  return new UserError(
    `The journal cannot be carried out from its newest snapshot on: ${message}. ` +
      "The files of its last owner are whole: begin an empty journal with that one's state folder.",
    EXIT.badState,
  );
}

/**
 * Appends the entry of a new owner, once. An append without an answer is made again.
 * @returns false if another entry has its number
 */
async function appendOnce(journal: Journal, entry: Entry): Promise<boolean> {
  for (let tries = 1; ; tries += 1) {
    try {
      await journal.append(entry);
      return true;
    } catch (error) {
      if (!(error instanceof Taken) && tries >= 3) throw error;
      if (!(error instanceof Taken)) continue;
      const [found] = await journal.read(entry.seq - 1, 1);
      return found !== undefined && isSame(found, entry);
    }
  }
}

/** Makes the id of an empty journal, and its first snapshot if the folder has databases. Returns null if it has none. */
async function beginJournal(
  { journal, stateDir, log }: FollowerParts,
  local: LocalPlace | null,
  hasData: boolean,
): Promise<string | null> {
  if (!hasData) return null;
  const id = local?.journal ?? randomUUID();
  log('info', 'the databases become the first snapshot of the journal', {});
  await forgetApplied(join(stateDir, 'data'));
  // The place goes first: a start after an end in between would take the snapshot for another folder's.
  await writePlace(stateDir, { journal: id, seq: 0, epoch: 0, mayBeAhead: false });
  await saveSnapshot(journal, stateDir, id, () => ({ seq: 0, epoch: 0 }));
  // Another queue with data of its own may begin the journal at the same time; the first snapshot stays.
  if ((await snapshotOwner(journal)) !== id) throw usedByTwo();
  return id;
}
