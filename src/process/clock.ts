import pRetry from 'p-retry';
import { doubling } from './backoff.ts';

/** A timer, opaque to all but its clock. */
export type Timer = unknown;

/** The clock for the rules, so that tests and the simulations can use a virtual one. */
export interface Clock {
  /** Returns the time, epoch ms; it never goes back. */
  now(): number;
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer): void;
}

/** The longest timer of Node, ms: a longer one fires after 1 ms. */
const LONGEST_MS = 2 ** 31 - 1;

/** A wait of any length; one too long for a single timer has several parts. */
interface Wait {
  part?: NodeJS.Timeout;
}

/** The machine's clock, which may be set back unnoticed. */
export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  setTimeout: (run, ms) => {
    const wait: Wait = {};
    const start = (leftMs: number) => {
      wait.part =
        leftMs > LONGEST_MS
          ? setTimeout(() => start(leftMs - LONGEST_MS), LONGEST_MS)
          : setTimeout(run, leftMs);
    };
    start(ms);
    return wait;
  },
  clearTimeout: (timer) => clearTimeout((timer as Wait | null | undefined)?.part),
};

/** Waits. Resolves early when the signal is aborted; never rejects. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clock.clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = clock.setTimeout(done, ms);
    signal?.addEventListener('abort', done);
  });
}

export interface TimeoutOptions {
  /** The caller's signal, which also aborts the signal that `run` gets. */
  signal?: AbortSignal | undefined;
  /** The message of the timeout error; left out: `no answer within N s`. */
  message?: string;
}

/**
 * Runs something for at most `ms`. If it ignores its signal it continues, but its outcome is discarded.
 * @param run gets a signal that is aborted at the timeout
 * @throws whatever `run` throws; an Error with the message at the timeout
 */
export async function withTimeout<T>(
  clock: Clock,
  ms: number,
  run: (signal: AbortSignal) => Promise<T>,
  { signal, message = `no answer within ${Math.ceil(ms / 1000)} s` }: TimeoutOptions = {},
): Promise<T> {
  const limit = new AbortController();
  const late = Promise.withResolvers<never>();
  const timer = clock.setTimeout(() => {
    limit.abort(new Error(message));
    late.reject(limit.signal.reason);
  }, ms);
  try {
    return await Promise.race([
      run(signal ? AbortSignal.any([signal, limit.signal]) : limit.signal),
      late.promise,
    ]);
  } finally {
    clock.clearTimeout(timer);
  }
}

/** The longest pause, ms. With longer ones half of the limit could pass without a try after an outage of seconds. */
const LONGEST_PAUSE_MS = 5000;

export interface RetryOptions {
  clock: Clock;
  /** The limit for all tries and the pauses between them, ms. */
  limitMs: number;
  /** The pause before the second try, ms; it doubles with each further one, up to LONGEST_PAUSE_MS. */
  firstPauseMs: number;
  /** The most tries; left out: as many as the limit allows. */
  tries?: number;
  /** Returns whether another try may succeed. */
  mayPass(error: Error): boolean;
  signal?: AbortSignal | undefined;
}

/**
 * Runs something until it succeeds, fails for good, or another try would not fit the limit.
 * @throws the error of the last try, an Error if the limit ended it, or the reason of `signal`
 */
export function withRetries<T>(options: RetryOptions, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { clock, limitMs, firstPauseMs, tries = Number.POSITIVE_INFINITY, mayPass, signal } = options;
  const endsAt = clock.now() + limitMs;
  const tryAll = (ended: AbortSignal) =>
    pRetry(() => run(ended), {
      retries: tries - 1,
      signal: ended,
      // p-retry would pause by the system's clock: `shouldRetry` pauses by ours.
      minTimeout: 0,
      shouldRetry: async ({ error, attemptNumber }) => {
        const pauseMs = doubling(firstPauseMs, LONGEST_PAUSE_MS, attemptNumber);
        if (!mayPass(error) || clock.now() + pauseMs >= endsAt) return false;
        await sleep(clock, pauseMs, ended);
        return true;
      },
    });
  return withTimeout(clock, limitMs, tryAll, { signal });
}
