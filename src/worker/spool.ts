import type { JobRef } from '../protocol/index.ts';
import type { SpooledSettlement } from './outbox.ts';

/**
 * Settlements of stored jobs on this worker's disk, for the process that comes after this one.
 * Implementations: disk-spool.ts, and one in memory for tests and the simulation.
 */
export interface Spool {
  /**
   * Resolves when a later `load` will find the settlement.
   * @throws Error that says for people why it is not kept: disk full, unwritable, over the limit
   */
  put(spooled: SpooledSettlement): Promise<void>;
  /** Forgets one attempt's settlement; one that is not there is no error. Follows a `put` still under way. */
  remove(ref: JobRef): Promise<void>;
  /**
   * What earlier processes left, oldest fence first, each as soon as it is read.
   * @throws Error for people, when nothing (more) can be read
   */
  load(): AsyncIterable<SpooledSettlement>;
}
