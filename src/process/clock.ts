/** A timer as its clock knows it. */
export type Timer = unknown;

/** Time, handed in to whatever decides, so that tests and the simulations can use a virtual one. */
export interface Clock {
  /** Epoch ms that never go back. */
  now(): number;
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer): void;
}

/** Node makes 1 ms of anything longer. */
const LONGEST_MS = 2 ** 31 - 1;

/** A wait of any length, the longest in several parts. */
interface Wait {
  part?: NodeJS.Timeout;
}

/** The machine's, which may be set back unnoticed. */
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

/** Ends early, and never rejects, when the signal is aborted. */
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
