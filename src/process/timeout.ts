import type { Clock } from './clock.ts';

export interface TimeoutOptions {
  /** The caller's signal, which also aborts the signal that `run` gets. */
  signal?: AbortSignal | undefined;
  /** Message of the timeout error; default `no answer within N s`. */
  message?: string;
}

/**
 * Runs something for at most `ms`. If it ignores its signal it keeps running, but its outcome is discarded.
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
