import type { Core } from '../state/state.ts';
import { due } from '../store/alarm.ts';
import { latestTime, moveTimesBack, rememberTime } from '../store/times.ts';

/**
 * A clock that is set back. In a running object `now` never goes back: only a new object has the new time. So its host
 * starts it again, and when it starts, what is stored moves back by as much as the clock did: a lease with ten seconds
 * left has ten seconds left.
 */

/** Notes for the object that starts next until when this one lived. */
export function noteTime(core: Core): void {
  rememberTime(core.sql, core.now());
}

/** At the start: nothing stored may be of the future. */
export function followClockBack(core: Core): void {
  const now = core.now();
  const backMs = (latestTime(core.sql) ?? now) - now;
  if (backMs <= 0) return;
  moveTimesBack(core.sql, backMs, now);
  // Set for a time of before, the alarm would come late. When it comes it is set for what is due next.
  due(core, now);
  core.log('warn', 'the clock was set back: leases, delays and deadlines move with it', {
    seconds: Math.round(backMs / 1000),
  });
}
