import * as format from '../../show/format.ts';
import { now, timeZone } from '../clock.ts';

/**
 * Shows how long ago something was; it ticks, and shows the exact time on hover. @param at epoch ms of the server's
 * clock
 */
export function Age({ at }: { at: number | null }) {
  if (at === null) return <span class="number">{format.UNKNOWN}</span>;
  return (
    <time
      class="number"
      dateTime={new Date(at).toISOString()}
      title={format.exactTime(at, timeZone.value, now.peek())}
    >
      {format.age(now.value - at)}
    </time>
  );
}

/** Shows an exact time, and on hover how long ago it was. */
export function Time({ at }: { at: number | null }) {
  if (at === null) return <span class="number">{format.UNKNOWN}</span>;
  return (
    <time class="number" dateTime={new Date(at).toISOString()} title={`${format.age(now.peek() - at)} ago`}>
      {format.exactTime(at, timeZone.value, now.peek())}
    </time>
  );
}
