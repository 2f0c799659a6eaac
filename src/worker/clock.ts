import { steadyNow, systemTimers } from '../process/timeout.ts';

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

export const systemClock: Clock = {
  ...systemTimers,
  now: steadyNow,
  setImmediate: (run) => {
    setImmediate(run);
  },
};
