import pRetry from 'p-retry';
import { type Timers, withTimeout } from './timeout.ts';

export interface RetryOptions {
  timers: Timers & { now(): number };
  /** For all tries and the pauses between them, ms. */
  limitMs: number;
  /** Before the second try, ms; doubles with each one after it. */
  firstPauseMs: number;
  /** Tries in all; as many as the limit allows if left out. */
  tries?: number;
  /** Whether another try may succeed. */
  mayPass(error: Error): boolean;
  signal?: AbortSignal | undefined;
}

/**
 * Runs something until it succeeds, fails for good, or another try would not fit the limit.
 * @throws the error of the last try, an Error if the limit ended it, or the reason of `signal`
 */
export function withRetries<T>(options: RetryOptions, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { timers, limitMs, firstPauseMs, tries = Number.POSITIVE_INFINITY, mayPass, signal } = options;
  const endsAt = timers.now() + limitMs;
  const tryAll = (ended: AbortSignal) =>
    pRetry(() => run(ended), {
      retries: tries - 1,
      signal: ended,
      // p-retry would pause by the system's clock: `shouldRetry` pauses by ours.
      minTimeout: 0,
      shouldRetry: async ({ error, attemptNumber }) => {
        const pauseMs = firstPauseMs * 2 ** (attemptNumber - 1);
        if (!mayPass(error) || timers.now() + pauseMs >= endsAt) return false;
        await pause(timers, pauseMs, ended);
        return true;
      },
    });
  return withTimeout(timers, limitMs, tryAll, { signal });
}

/** Ends early when the signal fires. */
function pause(timers: Timers, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      timers.clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = timers.setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}
