import { now, timeZone } from '../clock.ts';
import * as format from '../format.ts';

/** How long ago something was; it ticks, and tells the exact time on hover. @param at epoch ms of the server's clock */
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

/** The exact time; how long ago that was on hover. */
export function Time({ at }: { at: number | null }) {
  if (at === null) return <span class="number">{format.UNKNOWN}</span>;
  return (
    <time class="number" dateTime={new Date(at).toISOString()} title={`${format.age(now.peek() - at)} ago`}>
      {format.exactTime(at, timeZone.value, now.peek())}
    </time>
  );
}
