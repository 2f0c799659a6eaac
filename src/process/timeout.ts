/** The part of a clock that a timeout needs; tests and the simulation pass a virtual one. */
export interface Timers {
  setTimeout(run: () => void, ms: number): unknown;
  clearTimeout(timer: unknown): void;
}

/** Node makes 1 ms of anything longer. */
const LONGEST_MS = 2 ** 31 - 1;

/** A wait of any length, the longest in several parts. */
interface Wait {
  part?: NodeJS.Timeout;
}

/** The real ones. */
export const systemTimers: Timers = {
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

/** Epoch ms that never go back, though the machine's clock may. */
export function steadyNow(): number {
  return performance.timeOrigin + performance.now();
}

export interface TimeoutOptions {
  /** Also aborts the signal that `run` gets. */
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
