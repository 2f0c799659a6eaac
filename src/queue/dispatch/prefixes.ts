import { BLOCK_ENDS, type Prefix } from '../rpc.ts';
import type { Worker } from '../state/worker.ts';
import type { Scorer } from './choose.ts';

/**
 * Guesses which worker's engine has computed the beginning of a prompt, from what was dispatched
 * (state/worker.ts). Being a guess, it only chooses between workers and between waiting jobs: no slot stays free
 * for it, and no job is held back for long.
 */

/**
 * The least share of a prompt that a match must cover: with less than a quarter of the prompt computed, the engine
 * still has most of the work to do, and the least loaded worker does it soonest. A system prompt before long documents
 * is such a match.
 */
const LEAST_SHARE = 1 / 4;

/** Sends a job to the worker that knows most of its prompt. */
export const PREFIXES: Scorer = {
  score: (worker, { extras: { prefix } }) => (prefix === undefined ? 0 : warmth(worker, prefix)),
  differs: (_, { extras }) => extras.prefix !== undefined,
  given: (worker, job) => {
    const { prefix } = job.extras;
    if (prefix === undefined) return;
    const share = predictedShare(worker, prefix);
    if (share > 0) worker.predicted.set(job.id, share);
    // The worker's engine computes the prompt now.
    worker.prefixes.add(prefix);
  },
};

/**
 * Returns how much of a prompt a worker is expected to have, bytes; a conversation that the worker had counts before
 * all else.
 */
function warmth({ prefixes }: Worker, prefix: Prefix): number {
  const matched = matchedBytes(prefixes.blocksOf(prefix));
  const counted = matched >= prefix.bytes * LEAST_SHARE ? matched : 0;
  return prefixes.hasSession(prefix) ? SESSION + matched : counted;
}

/** The warmth that a known conversation adds: more than any match. */
const SESSION = 1e9;

function matchedBytes(blocks: number): number {
  return blocks === 0 ? 0 : BLOCK_ENDS[blocks - 1]!;
}

/** Returns the share of a prompt that a worker is expected to have, 0 to 1. */
function predictedShare({ prefixes }: Worker, prefix: Prefix): number {
  return prefix.bytes === 0 ? 0 : Math.min(1, matchedBytes(prefixes.blocksOf(prefix)) / prefix.bytes);
}
