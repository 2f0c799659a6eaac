import { doubling } from '../../process/backoff.ts';
/**
 * RunPod's side of a serverless endpoint as one of its workers sees it, whatever carries it: HTTP (http-platform.ts),
 * or a stand-in on this machine (local-platform.ts).
 */
export interface Platform {
  /**
   * Asks for jobs; the platform may let it wait for some.
   * @param wanted how many at most; it may give more @param isBusy whether any job is held
   */
  take(wanted: number, isBusy: boolean, signal: AbortSignal): Promise<PlatformAnswer>;
  /** Waits for jobs that are to be stopped; null: the platform does not tell. */
  stops: ((isBusy: boolean, signal: AbortSignal) => Promise<PlatformAnswer>) | null;
  post(post: PlatformPost, signal: AbortSignal): Promise<PlatformAnswer>;
  /** Says which jobs are held here; null: the platform gave no address for that. */
  ping: ((jobIds: readonly string[]) => Promise<PlatformAnswer>) | null;
  /** Nothing more is asked. */
  close?(): void;
}

/** What a job has yielded (`stream`), or how it ended (`done`). */
export interface PlatformPost {
  to: 'stream' | 'done';
  jobId: string;
  /** JSON. */
  body: string;
}

export interface PlatformAnswer {
  /** HTTP status; null: no answer came. */
  status: number | null;
  /** Without an answer: the request may have taken effect. */
  mayHaveReached?: boolean;
  /** Parsed; undefined where it is no JSON. */
  body: unknown;
  /** What is wrong with it, for people, if anything is. */
  problem: string;
}

export function isTaken({ status }: PlatformAnswer): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** Whether the same request may succeed later. */
export function mayPass({ status }: PlatformAnswer): boolean {
  return status === null || status === 408 || status === 429 || status >= 500;
}

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
const JITTER = 0.3;

/** Before the next try, ms. @param failures in a row, 1 or more */
export function pauseAfterFailure(failures: number, random: () => number): number {
  return doubling(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, failures) * (1 + JITTER * random());
}
