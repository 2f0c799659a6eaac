import type { Waiting } from '../../protocol/waiting.ts';
import * as format from '../../show/format.ts';
import { now, timeZone } from '../clock.ts';

/**
 * Shows how long ago something was; it ticks, and shows the exact time on hover. @param at epoch ms by the server's
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

/** Shows an exact time, and on hover how long ago it was, or how far ahead it is. */
export function Time({ at }: { at: number | null }) {
  if (at === null) return <span class="number">{format.UNKNOWN}</span>;
  const ago = now.peek() - at;
  const title = ago < 0 ? `in ${format.age(-ago)}` : `${format.age(ago)} ago`;
  return (
    <time class="number" dateTime={new Date(at).toISOString()} title={title}>
      {format.exactTime(at, timeZone.value, now.peek())}
    </time>
  );
}

/** Shows the button that fixes a moving span of time, so that its address shows the same to others. */
export function HoldTime({ onHold }: { onHold(): void }) {
  return (
    <button type="button" onClick={onHold} title="Makes this span part of the address, for others to see">
      Hold this time
    </button>
  );
}

/** Shows what something waits for, until when, and what can be done. */
export function WaitingFor({ waiting }: { waiting: Waiting }) {
  const { until, advice } = waiting;
  return (
    <p class="why">
      Waits because {waiting.for}
      {until !== null && (
        <>
          {' '}
          (until <Time at={Date.parse(until)} />)
        </>
      )}
      .{advice !== null && ` ${advice}`}
    </p>
  );
}
