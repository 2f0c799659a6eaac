import { isObject } from '../../protocol/index.ts';

const LONGEST_ID = 256;
/** The range of an executionTimeout, as RunPod's API takes it, ms. */
const SHORTEST_MS = 5000;
const LONGEST_MS = 7 * 86_400_000;

/** A job as the platform gives it. */
export interface TakenJob {
  id: string;
  /** The payload of a `runpod` job; a job whose input is no input fails when it runs. */
  payload: { input: unknown; policy?: { executionTimeout: number } };
  /** Fields that not every job has, for the log. */
  notes: { batch_id?: string };
  hasInput: boolean;
}

/** Reads a job that the platform sent; null: it has no id that an answer could be sent to. */
export function readTakenJob(given: unknown): TakenJob | null {
  if (!isObject(given)) return null;
  const { id, input, policy, batchId } = given;
  if (typeof id !== 'string' || !isAddressable(id)) return null;
  const limitMs = isObject(policy) ? policy.executionTimeout : undefined;
  return {
    id,
    payload: { input, ...(isLimit(limitMs) && { policy: { executionTimeout: limitMs } }) },
    notes: typeof batchId === 'string' ? { batch_id: batchId } : {},
    hasInput: input !== undefined,
  };
}

/**
 * Tells whether an id can stand in the path of an address: half a surrogate cannot be encoded, and dots name another
 * folder.
 */
function isAddressable(id: string): boolean {
  return id !== '' && id.length <= LONGEST_ID && id.isWellFormed() && id !== '.' && id !== '..';
}

/** Tells whether a time limit is in range; a job with any other value runs without a limit. */
function isLimit(ms: unknown): ms is number {
  return typeof ms === 'number' && ms >= SHORTEST_MS && ms <= LONGEST_MS;
}
