/** A timer as its clock knows it. */
export type Timer = unknown;

/** Time, injected everywhere in this room, so that tests and the simulation can use a virtual clock. */
export interface Clock {
  /** Epoch milliseconds that never go back. */
  now(): number;
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer): void;
  /** Runs once the events already waiting in this turn are through: what they bring is merged. */
  setImmediate(run: () => void): void;
}

/** Node makes 1 ms of anything longer. */
const LONGEST_MS = 2 ** 31 - 1;

/** A wait of any length, the longest in several parts. */
interface Wait {
  part?: NodeJS.Timeout;
}

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
  setImmediate: (run) => {
    setImmediate(run);
  },
};
