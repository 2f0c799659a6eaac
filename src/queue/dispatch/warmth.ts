import { BLOCK_ENDS, type Prefix } from '../rpc.ts';
import type { Worker } from '../state/worker.ts';

/**
 * Which worker's engine has computed the beginning of a prompt. It is a guess from what was dispatched
 * (state/prefix-cache.ts), so it only chooses between workers and between waiting jobs: no slot stays free for it, and
 * no job is held back for long.
 */

/**
 * A shorter match does not count: with less than a quarter of the prompt computed the engine has most of the work to
 * do still, and the least loaded worker does it soonest. A system prompt before long documents is such a match.
 */
const LEAST_SHARE = 1 / 4;

/**
 * A warm worker is chosen as long as it has at most twice the load of the least loaded one, and two jobs. Beyond that
 * the job goes to another worker, which is warm from then on: so a beginning that all prompts have is soon everywhere,
 * and then decides nothing. Twice: with fewer, conversations move though load differs by chance alone; two: where
 * little runs, jobs beside each other do not slow each other down.
 */
const TIMES_LEAST = 2;
const MORE_JOBS = 2;

/** Waiting jobs that are looked at for a slot. */
export const MOST_LOOKED_AT = 16;

/** How often a job may be passed over: in a full pool it waits for the ends of eight more jobs. */
export const MOST_PASSED_OVER = 8;

/** How much of a prompt a worker is supposed to have, bytes; a conversation that it had counts before all else. */
export function warmth({ prefixes }: Worker, prefix: Prefix): number {
  const matched = matchedBytes(prefixes.blocksOf(prefix));
  const counted = matched >= prefix.bytes * LEAST_SHARE ? matched : 0;
  return prefixes.hasSession(prefix) ? SESSION + matched : counted;
}

/** More than any match. */
const SESSION = 1e9;

function matchedBytes(blocks: number): number {
  return blocks === 0 ? 0 : BLOCK_ENDS[blocks - 1]!;
}

/** The share of a prompt that a worker is supposed to have, 0 to 1. */
export function predictedShare({ prefixes }: Worker, prefix: Prefix): number {
  return prefix.bytes === 0 ? 0 : Math.min(1, matchedBytes(prefixes.blocksOf(prefix)) / prefix.bytes);
}

/** Share of its slots in use. */
export function shareInUse({ running, session }: Worker): number {
  return running.size / session.capacity;
}

/** Whether a worker may be chosen for its warmth, beside the least loaded one that could be. */
export function mayBePreferred(worker: Worker, least: Worker): boolean {
  return shareInUse(worker) <= TIMES_LEAST * shareInUse(least) + MORE_JOBS / worker.session.capacity;
}
