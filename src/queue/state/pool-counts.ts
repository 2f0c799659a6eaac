import {
  DURATION_BOUNDS,
  FIRST_TOKEN_BOUNDS,
  PER_TOKEN_BOUNDS,
  QUEUE_WAIT_BOUNDS,
  RELEASE_REASONS,
} from '../../protocol/index.ts';
import { newHistogram } from './histogram.ts';

/** Of a caller that waits on a connection, or a row. */
export const MODES = ['waiting', 'stored'] as const;

/** How a job ended; `rejected`: it was not let in, or found no worker while its caller waited. */
export const OUTCOMES = ['succeeded', 'failed', 'cancelled', 'expired', 'rejected'] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** How an attempt ended. */
const ATTEMPT_RESULTS = ['succeeded', 'failed', 'lease_expired', 'released', 'cancelled', 'expired'] as const;

/** Why an attempt was given back without blame: a worker's own reason, or that the queue took it back. */
const RELEASES = [...RELEASE_REASONS, 'returned'] as const;

/** `cached_input` is part of `input`, `reasoning` of `output`; `wasted`: of attempts that did not count. */
const TOKEN_KINDS = ['input', 'output', 'cached_input', 'reasoning', 'wasted'] as const;

const PREFIX_HITS = ['predicted', 'seen'] as const;

/** What the slots of a pool were held for one tenant, as for usage. */
export interface TenantCost {
  tenant: string;
  slot_ms: number;
  /** Of it that at workers whose price is not known. */
  unpriced_slot_ms: number;
  /** Of the rest. */
  nanodollars: number;
}

/** What happened to the jobs of one pool since it was first counted. */
export type PoolCounts = ReturnType<typeof newCounts>;

export function newCounts() {
  return {
    submitted: zeros(MODES),
    /** Of these, the ones that give way to all others: their priority is below zero, as that of lines of batches. */
    submitted_in_background: 0,
    settled: { waiting: zeros(OUTCOMES), stored: zeros(OUTCOMES) },
    /** Of those that were rejected, the ones for want of a worker or a slot. */
    turned_away: 0,
    /** Ended jobs to which an attempt was charged before the last. */
    retried: 0,
    dispatches: 0,
    attempts: zeros(ATTEMPT_RESULTS),
    releases: zeros(RELEASES),
    /** Settlements that were refused: the job had gone to another attempt. */
    fence_refusals: 0,
    tokens: zeros(TOKEN_KINDS),
    /** By tenant, of those that are told apart. */
    cost: [] as TenantCost[],
    /**
     * Tokens of prompts that the engine had computed before, of jobs that succeeded: as the queue supposed when it chose
     * the worker, and as the engine told.
     */
    prefix_hits: zeros(PREFIX_HITS),
    /** Slots of the worker that registered last; null: none has. From it follows how many workers are wanted. */
    slots_per_worker: null as number | null,
    /** Jobs whose tokens their engine did not count to the end. */
    estimated: 0,
    /** From submission to the first dispatch. */
    queue_wait: newHistogram(QUEUE_WAIT_BOUNDS),
    /** From submission to the first token of a streamed answer. */
    first_token: newHistogram(FIRST_TOKEN_BOUNDS),
    /** The same of callers that waited for it on their connection. */
    live_first_token: newHistogram(FIRST_TOKEN_BOUNDS),
    /** Between two tokens of a streamed answer, as the mean of the answer. */
    per_token: newHistogram(PER_TOKEN_BOUNDS),
    /** Of jobs that succeeded, from submission and from dispatch. */
    duration: newHistogram(DURATION_BOUNDS),
    run: newHistogram(DURATION_BOUNDS),
  };
}

function zeros<K extends string>(keys: readonly K[]): Record<K, number> {
  return Object.fromEntries(keys.map((key) => [key, 0])) as Record<K, number>;
}
