import { doubling } from '../../process/backoff.ts';
import { isObject } from '../../protocol/index.ts';

/**
 * RunPod's side of a serverless endpoint as one of its workers sees it, over HTTP (http-platform.ts) or from a stand-in
 * on this machine (local-api.ts).
 */
export interface Platform {
  /**
   * Asks for jobs; the platform may let the request wait for some.
   * @param wanted the most jobs, though the platform may give more @param isBusy whether the worker holds any job
   */
  take(wanted: number, isBusy: boolean, signal: AbortSignal): Promise<PlatformAnswer>;
  /** Waits for jobs that should be stopped; null: the platform does not report them. */
  stops: ((isBusy: boolean, signal: AbortSignal) => Promise<PlatformAnswer>) | null;
  post(post: PlatformPost, signal: AbortSignal): Promise<PlatformAnswer>;
  /** Reports which jobs this worker holds; null: the platform gave no address for that. */
  ping: ((jobIds: readonly string[]) => Promise<PlatformAnswer>) | null;
  /** Closes the connections; nothing more is requested. */
  close?(): void;
}

/** An output of a job (`stream`), or its outcome (`done`). */
export interface PlatformPost {
  to: 'stream' | 'done';
  jobId: string;
  /** JSON. */
  body: string;
}

export interface PlatformAnswer {
  /** HTTP status; null: no answer came. */
  status: number | null;
  /** Whether no answer came but the request may have taken effect. */
  mayHaveReached?: boolean;
  /** The parsed body; undefined if it is no JSON. */
  body: unknown;
  /** The fault of the answer, for people. */
  problem: string;
}

export function isTaken({ status }: PlatformAnswer): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** Tells whether the same request may succeed later. */
export function mayPass({ status }: PlatformAnswer): boolean {
  return status === null || status === 408 || status === 429 || status >= 500;
}

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const JITTER = 0.3;

/** Returns the pause before the next try, ms. @param failures the number of failures in a row, 1 or more */
export function pauseAfterFailure(failures: number, random: () => number): number {
  return doubling(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, failures) * (1 + JITTER * random());
}

const LONGEST_ID = 256;
/** The range of an executionTimeout, as RunPod's API accepts it, ms. */
const SHORTEST_MS = 5000;
const LONGEST_MS = 7 * 86_400_000;

/** A job as the platform gives it. */
export interface TakenJob {
  id: string;
  /** The payload of a `runpod` job; a job whose input has no valid form fails when it runs. */
  payload: { input: unknown; policy?: { executionTimeout: number } };
  /** Fields that not every job has, for the log. */
  notes: { batch_id?: string };
  hasInput: boolean;
}

/** Reads a job that the platform sent; null: it has no id to which an answer could be sent. */
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
 * Tells whether an id can be part of an address's path: half a surrogate pair cannot be encoded, and dots name another
 * folder.
 */
function isAddressable(id: string): boolean {
  return id !== '' && id.length <= LONGEST_ID && id.isWellFormed() && id !== '.' && id !== '..';
}

/** Tells whether a time limit is in range; a job with any other value runs without a limit. */
function isLimit(ms: unknown): ms is number {
  return typeof ms === 'number' && ms >= SHORTEST_MS && ms <= LONGEST_MS;
}
