import {
  fitsUtf8,
  type JobError,
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
