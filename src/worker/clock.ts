import * as machine from '../process/clock.ts';

export type { Timer } from '../process/clock.ts';

/** A clock that also knows turns of the event loop. */
export interface Clock extends machine.Clock {
  /** Runs after the events that already wait in this turn, so that their output is merged. */
  setImmediate(run: () => void): void;
}

export const systemClock: Clock = {
  ...machine.systemClock,
  setImmediate: (run) => {
    setImmediate(run);
  },
};
