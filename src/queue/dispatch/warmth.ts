import { BLOCK_ENDS, type Prefix } from '../rpc.ts';
import type { Worker } from '../state/worker.ts';

/**
 * Guesses which worker's engine has computed the beginning of a prompt, from what was dispatched
 * (state/prefix-cache.ts). Being a guess, it only chooses between workers and between waiting jobs: no slot stays free
 * for it, and no job is held back for long.
 */

/**
 * The least share of a prompt that a match must cover: with less than a quarter of the prompt computed, the engine
 * still has most of the work to do, and the least loaded worker does it soonest. A system prompt before long documents
 * is such a match.
 */
const LEAST_SHARE = 1 / 4;

/**
 * A warm worker is chosen as long as it has at most twice the load of the least loaded one, and two jobs more. Beyond
 * that the job goes to another worker, which is warm from then on: so a beginning that all prompts have is soon
 * everywhere, and then decides nothing. The factor is two since with a smaller one conversations would move when load
 * differs by chance alone; the two jobs are added since, where little runs, jobs beside each other do not slow each
 * other down.
 */
const TIMES_LEAST = 2;
const MORE_JOBS = 2;

/** The most waiting jobs that are considered for a slot. */
export const MOST_LOOKED_AT = 16;

/** A job may be passed over this many times: in a full pool it waits for the ends of eight more jobs. */
export const MOST_PASSED_OVER = 8;

/**
 * Returns how much of a prompt a worker is expected to have, bytes; a conversation that the worker had counts before
 * all else.
 */
export function warmth({ prefixes }: Worker, prefix: Prefix): number {
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
export function predictedShare({ prefixes }: Worker, prefix: Prefix): number {
  return prefix.bytes === 0 ? 0 : Math.min(1, matchedBytes(prefixes.blocksOf(prefix)) / prefix.bytes);
}

/** Returns the share of the worker's slots that are in use. */
export function shareInUse({ running, session }: Worker): number {
  return running.size / session.capacity;
}

/** Says whether a worker may be chosen for its warmth in place of the least loaded one that could be. */
export function mayBePreferred(worker: Worker, least: Worker): boolean {
  return shareInUse(worker) <= TIMES_LEAST * shareInUse(least) + MORE_JOBS / worker.session.capacity;
}
