/** One entry of a journal: what an owner has committed, in the form of entry.ts. */
export interface Entry {
  /** The number of the entry. The first one has 1, and each has one more than the one before it. */
  seq: number;
  /** The number of the ownership that appended it. Each new owner begins a higher one. */
  epoch: number;
  body: Uint8Array;
}

/** The place of an entry in the journal; 0 and 0 before the first one. */
export type Place = Pick<Entry, 'seq' | 'epoch'>;

/** The announcement of an owner that it is alive. It says when to take over, and keeps nobody from appending. */
export interface Lease {
  epoch: number;
  /** The address at which the owner is reached; empty: it has none. */
  address: string;
}

/** A part of a file of a snapshot, at most `CHUNK_BYTES` long. The parts of a file follow each other. */
export interface SnapshotChunk {
  name: string;
  bytes: Uint8Array;
}

/** The files of a state folder as they are after an entry. */
export interface Snapshot {
  seq: number;
  chunks: AsyncIterable<SnapshotChunk>;
}

/** The longest part of a file of a snapshot, bytes. */
export const CHUNK_BYTES = 4 * 2 ** 20;

/** `read` ends behind the entry with which it has this many bytes. */
export const READ_BYTES = 16 * 2 ** 20;

/** A call of a journal settles within this many ms, except `open`, snapshots and `trim`. */
export const CALL_MS = 5000;

/**
 * Stores what the owner of a state folder commits, on another machine if that is wanted. Followers read it to keep
 * files of their own, and one of them becomes the owner when the owner is gone.
 *
 * Only `append` makes this safe: it accepts one entry for each number, so an owner that was replaced finds the number
 * taken. A call that rejects with anything but `Taken` may have been carried out.
 */
export interface Journal {
  /**
   * Connects, makes what the journal needs, and checks that the server keeps what it acknowledges.
   * @throws UserError if the server cannot be used as it is set up; any other error if it cannot be reached now
   */
  open(): Promise<void>;
  /** Returns the place of the last entry. */
  last(): Promise<Place>;
  /**
   * Appends an entry, which is on disk when the promise resolves. A `trim` never removes the last entry, so the one
   * before it is always there.
   * @throws Taken if there is an entry with this number, or none with the number before it
   */
  append(entry: Entry): Promise<void>;
  /**
   * Returns entries with numbers above `afterSeq`, in order and without a gap between them: at most `most`, perhaps
   * fewer, and at least one if there is any. The first one's number is higher than `afterSeq + 1` if those between were
   * trimmed.
   */
  read(afterSeq: number, most: number): Promise<Entry[]>;
  /**
   * Sets the lease to end in `ttlMs` by the clock of the server, unless one of a higher epoch is there. 0 gives it up.
   * @returns whether it was set
   */
  renewLease(lease: Lease, ttlMs: number): Promise<boolean>;
  /** Returns the lease, and whether it still runs by the clock of the server; null: there was never one. */
  lease(): Promise<(Lease & { isAlive: boolean }) | null>;
  /**
   * Stores a snapshot, which `newestSnapshot` returns only once all of it is stored. One that has its number already
   * stays as it is. If the chunks throw, nothing of it stays that another call would see.
   */
  saveSnapshot(snapshot: Snapshot): Promise<void>;
  /** Returns the snapshot with the highest number. Its chunks may throw if `trim` removes it meanwhile. */
  newestSnapshot(): Promise<Snapshot | null>;
  /**
   * Removes the entries, in order, and the snapshots below a number. It is at most the last entry's; and while an owner
   * appends it is far below that, so that an append never loses the entry before it.
   */
  trim(beforeSeq: number): Promise<void>;
  /** Closes connections and files. No call may follow. */
  close(): Promise<void>;
}

/** The error of an append whose number another entry has, or that does not follow the last entry. */
export class Taken extends Error {
  constructor(seq: number) {
    super(`the journal's next entry is not ${seq}`);
  }
}

const DIGITS = 16;

/** Returns a number with as many digits as any, so that names made of them sort as the numbers do. */
export function sortedName(seq: number): string {
  return String(seq).padStart(DIGITS, '0');
}
