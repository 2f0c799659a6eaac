import pRetry from 'p-retry';
import { doubling } from './backoff.ts';
import { type Clock, sleep } from './clock.ts';
import { withTimeout } from './timeout.ts';

/** The longest pause, ms. With longer ones half of the limit could pass without a try, after an outage of seconds. */
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
