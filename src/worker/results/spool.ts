import type { JobRef } from '../../protocol/index.ts';
import type { Settlement } from './settlement.ts';

/** A settlement as the spool stores it. */
export interface SpooledSettlement {
  settlement: Settlement;
  /**
   * True of a settlement for an extended queue: it is reported before the engine is up, and never sent to a base queue.
   */
  isExtended: boolean;
  /** The address to which the result is uploaded before a reference is sent; undefined: it is sent in a frame. */
  uploadUrl?: string | undefined;
}

/**
 * Settlements of stored jobs on this worker's disk, for the process after this one.
 * Implementations: disk-spool.ts, and one in memory for tests and the simulation.
 */
export interface Spool {
  /** The number of bytes that the spool holds. */
  readonly bytes: number;
  /**
   * Stores a settlement. Resolves once a later `load` is sure to find it, or it was removed before it was written.
   * @param isSent whether it has gone to the queue already, so its acknowledgement may come before the disk is asked
   * @throws Error with the reason, for people: disk full, not writable, over the limit
   */
  put(spooled: SpooledSettlement, isSent?: boolean): Promise<void>;
  /** Removes one attempt's settlement, after any `put` in progress. A missing settlement is no error. */
  remove(ref: JobRef): Promise<void>;
  /**
   * Yields the settlements that earlier processes left, oldest fence first, each as soon as it is read.
   * @throws Error for people, when nothing (more) can be read
   */
  load(): AsyncIterable<SpooledSettlement>;
}
