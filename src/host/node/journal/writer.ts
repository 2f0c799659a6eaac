import type { Log } from '../../../durable/host.ts';
import { STATE_VERSION } from '../../../durable/ports.ts';
import { doubling } from '../../../process/backoff.ts';
import type { CommitTaker, Write } from '../storage/recorder.ts';
import { encode, type Group } from './entry.ts';
import { type Entry, type Journal, type Place, Taken } from './journal.ts';
import { appendAgain, isSame, KeptEntries } from './kept-entries.ts';

/** An entry takes groups until their values have about this many bytes. */
const ENTRY_BYTES = 2 ** 20;
/** About what a statement costs in an entry beside its values, bytes. */
const STATEMENT_BYTES = 32;

/** The pause after the first failed append, ms. It doubles up to the longest. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;
/** An entry that is not stored after this many ms is stuck. */
const STUCK_MS = 3000;

/**
 * Why an owner has to end: another one has the number of its next entry, its lease went to a process that did not become
 * the owner, or the server has lost what it had stored.
 */
export type Loss = 'replaced' | 'lease_lost' | 'entries_lost';

interface WriterPorts {
  /** Called once, when nothing can be stored any more. */
  lost(loss: Loss): void;
  /** Called when an entry has waited for so long, over appends that failed, that nobody should wait for it. */
  stuck(): void;
  /** Waits for some ms. */
  pause(ms: number): Promise<unknown>;
  /** Runs work in a later turn, so that the commits of one turn come in one entry. */
  soon(work: () => void): void;
  /** Returns the time of a clock that never goes back, ms. */
  now(): number;
  log: Log;
}

interface Waiting extends Group {
  bytes: number;
  /** Whether the groups after this one go into another entry. */
  isCut: boolean;
}

/**
 * Appends the commits of all databases of a state folder to the journal, in the order in which they were made, one
 * entry at a time. Groups that are committed meanwhile gather for the next entry.
 */
export class JournalWriter {
  readonly #journal: Journal;
  readonly #ports: WriterPorts;
  #last: Place;
  #waiting: Waiting[] = [];
  readonly #waiters: { upTo: number; done: () => void }[] = [];
  /** The number of groups that were committed, and of those that are stored. */
  #committed = 0;
  #stored = 0;
  #isAppending = false;
  #failures = 0;
  #isStuck = false;
  readonly #kept: KeptEntries;
  #isLost = false;

  /**
   * @param first the entry with which this process has become the owner
   * @param kept the entries before that one
   */
  constructor(journal: Journal, first: Entry, ports: WriterPorts, kept = new KeptEntries()) {
    this.#journal = journal;
    this.#last = first;
    this.#ports = ports;
    this.#kept = kept;
    this.#appended(first);
  }

  /** Takes the commits of one database. @param database its path, as in `Group` */
  of(database: string): CommitTaker {
    return {
      committed: (writes) => {
        if (writes.length > 0) this.#add(database, writes);
      },
      whenStored: (done) => this.#whenStored(done),
    };
  }

  /** The place of the last entry that is stored. */
  get last(): Place {
    return this.#last;
  }

  /** Whether the last append has failed, and is being tried again. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** Whether appends have failed for so long that nobody should wait for one. */
  get isStuck(): boolean {
    return this.#isStuck;
  }

  /**
   * Ends an entry with the last group that is committed now.
   * @returns a promise of that entry's number, once it is stored
   */
  cut(): Promise<number> {
    const last = this.#waiting.at(-1);
    if (last) last.isCut = true;
    return new Promise((resolve) => this.#whenStored(() => resolve(this.#last.seq)));
  }

  /** Stores all groups, and then says that this owner has ended. Never resolves if the journal is lost. */
  async end(): Promise<void> {
    await new Promise<void>((resolve) => this.#whenStored(resolve));
    await this.#append({ ...this.#next(), body: encode({ kind: 'closed' }) });
    this.#isLost = true;
  }

  /** Appends nothing more, except what is on its way. */
  stop(): void {
    this.#isLost = true;
  }

  #add(database: string, writes: readonly Write[]): void {
    if (this.#isLost) return;
    this.#committed += 1;
    this.#waiting.push({ database, writes, bytes: bytesOf(writes), isCut: false });
    if (this.#isAppending) return;
    this.#isAppending = true;
    this.#ports.soon(() => void this.#appendAll());
  }

  #whenStored(done: () => void): void {
    if (this.#isLost) return;
    if (this.#stored === this.#committed) done();
    else this.#waiters.push({ upTo: this.#committed, done });
  }

  async #appendAll(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#isLost) {
      const groups = this.#take();
      await this.#append({
        ...this.#next(),
        body: encode({ kind: 'commits', stateVersion: STATE_VERSION, groups }),
      });
      this.#stored += groups.length;
      while (this.#waiters.length > 0 && this.#waiters[0]!.upTo <= this.#stored)
        this.#waiters.shift()!.done();
    }
    this.#isAppending = false;
  }

  /** Returns the groups of the next entry. */
  #take(): Group[] {
    let bytes = 0;
    let count = 0;
    for (const group of this.#waiting) {
      count += 1;
      bytes += group.bytes;
      if (group.isCut || bytes >= ENTRY_BYTES) break;
    }
    return this.#waiting.splice(0, count).map(({ database, writes }) => ({ database, writes }));
  }

  #next(): Place {
    return { seq: this.#last.seq + 1, epoch: this.#last.epoch };
  }

  /** Appends one entry, however long that takes. Never settles if the journal is lost. */
  async #append(entry: Entry): Promise<void> {
    const stuckAt = this.#ports.now() + STUCK_MS;
    while (!this.#isLost) {
      try {
        if (await this.#tryAppend(entry)) return this.#appended(entry);
      } catch (error) {
        if (error instanceof JournalLost) this.#lose(error.loss);
        else await this.#failed(error as Error, stuckAt);
      }
    }
    await new Promise(() => {});
  }

  /**
   * Tries to append an entry, or those that the server has lost.
   * @returns whether the entry is stored @throws JournalLost if it never can be; any other error if the outcome is
   *   unknown
   */
  async #tryAppend(entry: Entry): Promise<boolean> {
    try {
      await this.#journal.append(entry);
      return true;
    } catch (error) {
      if (!(error instanceof Taken)) throw error;
    }
    const [found] = await this.#journal.read(entry.seq - 1, 1);
    if (found && isSame(found, entry)) return true;
    if (found) throw new JournalLost('replaced');
    await this.#restore(entry.seq - 1);
    return false;
  }

  /** Appends again what a server has lost. @param upTo the number of the last entry that it had acknowledged */
  async #restore(upTo: number): Promise<void> {
    const last = await this.#journal.last();
    if (last.seq >= upTo) return;
    if (last.epoch > this.#last.epoch) throw new JournalLost('replaced');
    const missing = this.#kept.between(last.seq, upTo);
    if (missing === null) throw new JournalLost('entries_lost');
    await appendAgain(this.#journal, missing, this.#ports.log);
  }

  #appended(entry: Entry): void {
    if (this.#failures > 0) this.#ports.log('info', 'the journal can be reached again', {});
    this.#failures = 0;
    this.#isStuck = false;
    this.#last = { seq: entry.seq, epoch: entry.epoch };
    this.#kept.add(entry, this.#ports.now());
  }

  async #failed(error: Error, stuckAt: number): Promise<void> {
    this.#failures += 1;
    if (!this.#isStuck && this.#ports.now() >= stuckAt) {
      this.#isStuck = true;
      this.#ports.stuck();
    }
    if (this.#failures === 1)
      this.#ports.log('warn', 'the journal cannot be reached: nothing is acknowledged until it can', {
        error: error.message,
      });
    await this.#ports.pause(doubling(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, this.#failures));
  }

  #lose(loss: Loss): void {
    this.#isLost = true;
    this.#ports.lost(loss);
  }
}

class JournalLost extends Error {
  readonly loss: Loss;
  constructor(loss: Loss) {
    super(`the journal is lost: ${loss}`);
    this.loss = loss;
  }
}

function bytesOf(writes: readonly Write[]): number {
  let bytes = 0;
  for (const write of writes) {
    bytes += STATEMENT_BYTES;
    for (let index = 1; index < write.length; index += 1) {
      const value = write[index];
      bytes += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
    }
  }
  return bytes;
}
