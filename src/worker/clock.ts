import * as machine from '../process/clock.ts';

export type { Timer } from '../process/clock.ts';

/** A clock that knows turns of the event loop too. */
export interface Clock extends machine.Clock {
  /** Runs once the events already waiting in this turn are through: what they bring is merged. */
  setImmediate(run: () => void): void;
}

export const systemClock: Clock = {
  ...machine.systemClock,
  setImmediate: (run) => {
    setImmediate(run);
  },
};
