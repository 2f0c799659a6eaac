import type { FleetView } from '../../protocol/index.ts';
import type { QueueTarget } from '../ask-queue.ts';
import { watchFleet } from '../top/connection.ts';
import { happenings } from './story.ts';

/** Says what happens to a fleet until it is stopped. */
export function tellHappenings(target: QueueTarget, say: (text: string) => void): { stop(): void } {
  let before: FleetView | null = null;
  return watchFleet(target, {
    onFrame: (_frame, view) => {
      for (const text of happenings(before, view)) say(text);
      before = view;
    },
    // The launcher says when the queue is away.
    onState: () => {},
  });
}
