import type { FleetFrame, FleetView } from '../../protocol/index.ts';
import { type FeedState, FleetFeed } from '../../show/fleet-feed.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';

export interface Watched {
  /** Called with the newest frame and view, whose clock is the server's. */
  onFrame(frame: FleetFrame, view: FleetView): void;
  /** Called with "live", or with what is wrong. */
  onState(state: string): void;
}

/**
 * Reads the fleet once, by HTTP.
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export function readFleet(target: QueueTarget): Promise<FleetView> {
  return askQueueJson(target, '/api/fleet', { scope: 'read' });
}

/** Watches the fleet until the feed is stopped. */
export function watchFleet(target: QueueTarget, watched: Watched): FleetFeed {
  let told = '';
  const feed = new FleetFeed({
    open: () => openLive(target),
    read: () => readFleet(target),
    // A denied token is tried again like any other failure: an operator may correct it meanwhile.
    isDenied: () => false,
    onView: (view, frame) => watched.onFrame(frame, view),
    onConfirmed: () => {},
    onState: (state, _retryAtMs, error) => {
      const text = inWords(state, error);
      if (text !== told) watched.onState(text);
      told = text;
    },
  });
  feed.start();
  return feed;
}

function openLive({ url, token, queueId }: QueueTarget): WebSocket {
  const address = new URL(`${url.replace(/\/+$/, '')}/api/fleet/live`);
  address.protocol = address.protocol.replace('http', 'ws');
  if (queueId) address.searchParams.set('queue_id', queueId);
  // Node's WebSocket takes headers, which the type does not have.
  const options = token ? { headers: { authorization: `Bearer ${token}` } } : {};
  return new WebSocket(address, options as unknown as string[]);
}

function inWords(state: FeedState, error: unknown): string {
  if (state === 'live') return state;
  if (state === 'polling') return 'polling: WebSockets are refused on the way';
  return error instanceof Error ? error.message : 'connection lost, trying again';
}
