import type { Clock } from '../../src/process/clock.ts';
import type { Planned, Timeline } from '../simulation/timeline.ts';

/** A process's clock and timers; when it is killed they stand still. */
export function clockOf(timeline: Timeline, isDead: () => boolean): Clock {
  return {
    now: () => timeline.now,
    setTimeout: (run, ms) =>
      timeline.after(ms, () => {
        if (!isDead()) run();
      }),
    clearTimeout: (timer) => {
      if (timer) (timer as Planned).run = null;
    },
  };
}
