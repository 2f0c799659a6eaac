import { doubling } from '../../process/backoff.ts';
/**
 * RunPod's side of a serverless endpoint as one of its workers sees it, over HTTP (http-platform.ts) or from a stand-in
 * on this machine (local-platform.ts).
 */
export interface Platform {
  /**
   * Asks for jobs; the platform may let the request wait for some.
   * @param wanted the most jobs; the platform may give more @param isBusy whether the worker holds any job
   */
  take(wanted: number, isBusy: boolean, signal: AbortSignal): Promise<PlatformAnswer>;
  /** Waits for jobs that should be stopped; null: the platform does not tell. */
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
  /** True if no answer came but the request may have taken effect. */
  mayHaveReached?: boolean;
  /** The parsed body; undefined where it is no JSON. */
  body: unknown;
  /** The fault of the answer, for people, if there is one. */
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

/** Returns the pause before the next try, ms. @param failures in a row, 1 or more */
export function pauseAfterFailure(failures: number, random: () => number): number {
  return doubling(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, failures) * (1 + JITTER * random());
}
