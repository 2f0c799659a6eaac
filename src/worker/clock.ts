/** A timer as its clock knows it. */
export type Timer = unknown;

/** Time, handed to everything in this room, so that tests and the simulation can hand a virtual one. */
export interface Clock {
  /** Epoch milliseconds that never go back. */
  now(): number;
  setTimeout(run: () => void, ms: number): Timer;
  clearTimeout(timer: Timer): void;
  /** Runs once the events already waiting in this turn are through: what they bring is merged. */
  setImmediate(run: () => void): void;
}

export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
  setImmediate: (run) => {
    setImmediate(run);
  },
};
