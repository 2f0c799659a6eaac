/** A timer as its clock knows it. */
export type Timer = unknown;

/** The clock that rules are given, so that tests and the simulations can use a virtual one. */
export interface Clock {
  /** Returns the time, epoch ms; it never goes back. */
  now(): number;
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer): void;
}

/** The longest timer of Node, ms: a longer one fires after 1 ms. */
const LONGEST_MS = 2 ** 31 - 1;

/** A wait of any length, the longest in several parts. */
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
