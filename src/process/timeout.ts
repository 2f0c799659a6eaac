/** The part of a clock that a time limit needs; tests and the simulation hand a virtual one. */
export interface Timers {
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** Node's own. */
export const systemTimers: Timers = {
  setTimeout,
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
};

export interface TimeoutOptions {
  /** Ends it too, through the signal that `run` is given. */
  signal?: AbortSignal | undefined;
  /** Message of the error when the limit ends it; `no answer within N s` without one. */
  message?: string;
}

/**
 * Runs something, but no longer than `ms`. What cannot be aborted goes on unheard.
 * @param run its signal fires at the limit
 * @throws whatever `run` throws; an Error with the message when the limit comes first
 */
export async function withTimeout<T>(
  timers: Timers,
  ms: number,
  run: (signal: AbortSignal) => Promise<T>,
  { signal, message = `no answer within ${Math.ceil(ms / 1000)} s` }: TimeoutOptions = {},
): Promise<T> {
  const limit = new AbortController();
  const late = Promise.withResolvers<never>();
  const timer = timers.setTimeout(() => {
    limit.abort(new Error(message));
    late.reject(limit.signal.reason);
  }, ms);
  try {
    return await Promise.race([
      run(signal ? AbortSignal.any([signal, limit.signal]) : limit.signal),
      late.promise,
    ]);
  } finally {
    timers.clearTimeout(timer);
  }
}
