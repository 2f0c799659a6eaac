import {
  fitsUtf8,
  type JobError,
  type JobRef,
  type JobResult,
  type JobResultRef,
  writeJson,
} from '../../protocol/index.ts';
import type { Peer } from '../session/peer.ts';

/** A frame that ends a job. */
export type Settlement = JobResult | JobResultRef | JobError;

/**
 * Returns the frame's text for this peer, with no field that the peer does not know; null: the peer takes no frame of
 * that size.
 */
export function frameText(settlement: Settlement, peer: Peer): string | null {
  const text = writeJson(formFor(settlement, peer));
  return fitsUtf8(text, peer.frameBytes) ? text : null;
}

/** Says whether a settlement may report what an attempt used that was aborted since its job was over. */
export function isReport(settlement: Settlement | undefined): boolean {
  return settlement?.type === 'job_error' && ['cancelled', 'deadline'].includes(settlement.code ?? '');
}

/** Returns the text of the error that is sent in place of a frame that is too large. */
export function tooLargeText(settlement: Settlement, peer: Peer): string {
  const limit = peer.frameBytes;
  const tooLarge: JobError = {
    type: 'job_error',
    job_id: settlement.job_id,
    fence_token: settlement.fence_token,
    error: `the outcome is larger than the ${limit} bytes the queue takes in one frame`,
    code: 'too_large',
    retryable: false,
  };
  return JSON.stringify(formFor(tooLarge, peer));
}

function formFor(settlement: Settlement, peer: Peer): Settlement {
  if (peer.takesSettlementDetails) return settlement;
  const { timing: _timing, usage: _usage, account: _account, ...known } = settlement;
  if (known.type !== 'job_error') return known;
  const { type, job_id, fence_token, error } = known;
  return { type, job_id, fence_token, error };
}

/** A settlement as the spool stores it. */
export interface SpooledSettlement {
  settlement: Settlement;
  /**
   * Whether the settlement is for an extended queue: then it is reported before the engine is up, and never sent to a
   * base queue.
   */
  isExtended: boolean;
  /**
   * The address to which the result is uploaded before a reference is sent; undefined: the result is sent in a frame.
   */
  uploadUrl?: string | undefined;
}

/**
 * The settlements of stored jobs on this worker's disk, for the next process.
 * Implementations: disk-spool.ts, and one in memory for tests and the simulation.
 */
export interface Spool {
  /** The number of bytes that the spool holds. */
  readonly bytes: number;
  /**
   * Stores a settlement. Resolves once a later `load` is sure to find it, or it was removed before it was written.
   * @param isSent whether the settlement has already gone to the queue, so that its acknowledgement may come before the
   * write
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
