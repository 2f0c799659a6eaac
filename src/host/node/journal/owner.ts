import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../../durable/host.ts';
import { EXIT, UserError } from '../../../process/index.ts';
import type { CommitTaker } from '../storage/recorder.ts';
import type { Claim } from './follower.ts';
import { HeldLease, JournalUnreachable } from './held-lease.ts';
import type { Journal, Place } from './journal.ts';
import { writePlace } from './place.ts';
import { saveSnapshot } from './snapshot.ts';
import { OWNER_PACE, SnapshotSchedule } from './snapshot-schedule.ts';
import { JournalWriter, type Loss } from './writer.ts';

/** The end of an owner waits at most this many ms for a journal that cannot be reached. */
const END_WITHIN_MS = 5000;

interface OwnerParts {
  journal: Journal;
  stateDir: string;
  claim: Claim;
  log: Log;
}

/** The right of this process to write the journal, and with it to let anything leave its objects. */
export class Owner {
  readonly #parts: OwnerParts;
  readonly #writer: JournalWriter;
  readonly #lease: HeldLease;
  readonly #snapshots: SnapshotSchedule;
  readonly #lost = Promise.withResolvers<Error>();
  readonly #paused: ((error: Error) => void)[] = [];

  constructor(parts: OwnerParts) {
    const { journal, claim, log } = parts;
    const { entry, address, renewedAt } = claim;
    this.#parts = parts;
    const ports = {
      lost: (loss: Loss) => this.#lose(loss),
      stuck: () => this.#stuck(),
      pause: (ms: number) => sleep(ms),
      soon: setImmediate,
      now: () => performance.now(),
      log,
    };
    this.#writer = new JournalWriter(journal, entry, ports, claim.kept);
    this.#snapshots = new SnapshotSchedule(journal, OWNER_PACE, {
      place: () => this.place,
      save: () => this.saveSnapshot(),
      log,
    });
    this.#lease = new HeldLease(journal, { epoch: entry.epoch, address }, renewedAt, {
      ranOut: (error) => this.#pause(error),
      taken: () => void this.#lookForOwner(),
      now: () => performance.now(),
      wallTime: Date.now,
      log,
    });
  }

  /** Resolves when another process is the owner: this one has to end. */
  get lost(): Promise<Error> {
    return this.#lost.promise;
  }

  /** Why nothing may leave the objects now; null: it may. */
  get problem(): Error | null {
    return this.#lease.problem ?? (this.#writer.isStuck ? new JournalUnreachable() : null);
  }

  /** The id of the journal. */
  get journalId(): string {
    return this.#parts.claim.journal;
  }

  /** The last entry that is stored. */
  get place(): Place {
    return this.#writer.last;
  }

  /** Adds what is called when nothing may leave any more: the objects end, and begin again when it may. */
  onPause(paused: (error: Error) => void): void {
    this.#paused.push(paused);
  }

  /** Takes the commits of one database. @param database its path below the folder of databases, with `/` */
  commitsOf(database: string): CommitTaker {
    return this.#writer.of(database);
  }

  /** Stores a snapshot of the databases while they are written. @returns its place */
  async saveSnapshot(): Promise<Place> {
    const { journal, stateDir, claim } = this.#parts;
    const { epoch } = claim.entry;
    const place = async () => ({ seq: await this.#writer.cut(), epoch });
    return await saveSnapshot(journal, stateDir, claim.journal, place);
  }

  /**
   * Ends the ownership once all databases are closed, and says so to the followers.
   * @param closing resolves when all databases are closed
   */
  async end(closing: Promise<void>): Promise<void> {
    const { stateDir, claim, log, journal } = this.#parts;
    this.#snapshots.end();
    const ended = async () => {
      await closing;
      await this.#writer.end();
      await writePlace(stateDir, { journal: claim.journal, ...this.#writer.last, mayBeAhead: false });
      await this.#lease.end();
      return true;
    };
    const unreachable = async () => {
      do await sleep(END_WITHIN_MS);
      while (this.problem === null && !this.#writer.isFailing);
      return false;
    };
    const isEnded = await Promise.race([ended(), this.lost.then(() => true), unreachable()]);
    this.#lease.stop();
    if (!isEnded)
      log('warn', 'the journal cannot be reached: what it lacks was not acknowledged, and is dropped', {});
    await Promise.race([journal.close(), sleep(END_WITHIN_MS, null, { ref: false })]);
  }

  /** Ends at once, without a word to the followers: this process is about to end. */
  stop(): void {
    this.#snapshots.end();
    this.#lease.stop();
    this.#writer.stop();
  }

  /**
   * Finds out whether the process that has the lease has become the owner. It takes the lease before it appends its
   * entry, and may end in between.
   */
  async #lookForOwner(): Promise<void> {
    const { journal, claim, log } = this.#parts;
    try {
      const last = await journal.last();
      if (last.epoch > claim.entry.epoch) return this.#lose('replaced');
      if ((await journal.lease())?.isAlive === false) this.#lose('lease_lost');
    } catch (error) {
      log('debug', 'the journal cannot be read', { error: String(error) });
    }
  }

  /** Has callers refused though the lease is renewed: a server may renew it that stores nothing else, on a full disk. */
  #stuck(): void {
    if (this.#lease.problem === null)
      this.#parts.log(
        'warn',
        'the journal stores nothing: calls are refused and sockets closed until it does',
        {},
      );
    this.#pause(new JournalUnreachable());
  }

  #pause(error: Error): void {
    for (const paused of this.#paused) paused(error);
  }

  #lose(loss: Loss): void {
    this.stop();
    this.#pause(new JournalUnreachable());
    this.#lost.resolve(LOST[loss]);
  }
}

const LOST: Record<Loss, Error> = {
  replaced: new UserError(
    'another process has become the owner of the journal; nothing that was acknowledged is lost. ' +
      'Started again with --follow, this one follows.',
    EXIT.replaced,
  ),
  lease_lost: new UserError(
    'another process took the lease of the journal, and ended before it became the owner; nothing that was ' +
      'acknowledged is lost. Started again, this one becomes the owner, or follows with --follow.',
    EXIT.replaced,
  ),
  entries_lost: new UserError(
    'the server of the journal has lost entries that it had acknowledged, and this process does not have all of them ' +
      'any more. Its files have everything: to begin a new journal with them, remove journal-at.json in the state ' +
      'folder and name an empty journal.',
    EXIT.badState,
  ),
};
