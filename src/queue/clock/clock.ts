import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { latestTime, moveTimesBack, rememberTime } from '../store/times.ts';

/**
 * Handles a clock that is set back. In a running object `now` never goes back: only a new object has the new time. So
 * the host starts the object again, and the new object moves what is stored back by as much as the clock went: a lease
 * with ten seconds left still has ten seconds left.
 */

/** Stores the time until which this object lived, for the object that starts next. */
export function noteTime(core: Core): void {
  rememberTime(core.sql, core.now());
}

/** Moves stored times back at the object's start, so that none lies in the future. */
export function followClockBack(core: Core): void {
  const now = core.now();
  const backMs = (latestTime(core.sql) ?? now) - now;
  if (backMs <= 0) return;
  moveTimesBack(core.sql, backMs, now);
  // The alarm would come late, as it was set by the earlier clock. When it comes it is set for what is due next.
  due(core, now);
  core.log('warn', 'the clock was set back: leases, delays and deadlines move with it', {
    seconds: Math.round(backMs / 1000),
  });
}
