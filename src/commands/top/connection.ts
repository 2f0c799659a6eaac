import { type FeedState, FleetFeed } from '../../dashboard/fleet-feed.ts';
import type { FleetFrame, FleetView } from '../../protocol/index.ts';
import { askQueueJson, type QueueTarget } from '../ask-queue.ts';

export interface Watched {
  /** The newest; its clock is the server's. */
  onFrame(frame: FleetFrame, view: FleetView): void;
  /** "live", or what is the matter. */
  onState(state: string): void;
}

/**
 * The fleet once, by HTTP.
 * @throws UserError when the queue cannot be reached, or the token may not look
 */
export function readFleet(target: QueueTarget): Promise<FleetView> {
  return askQueueJson(target, '/api/fleet', { scope: 'read' });
}

/** Watches until stopped. */
export function watchFleet(target: QueueTarget, watched: Watched): FleetFeed {
  let told = '';
  const feed = new FleetFeed({
    open: () => openLive(target),
    read: () => readFleet(target),
    // An operator may put the token right meanwhile: it is tried again like anything else.
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
  // Node's WebSocket takes headers.
  const options = token ? { headers: { authorization: `Bearer ${token}` } } : {};
  return new WebSocket(address, options as unknown as string[]);
}

function inWords(state: FeedState, error: unknown): string {
  if (state === 'live') return state;
  if (state === 'polling') return 'polling: WebSockets are refused on the way';
  return error instanceof Error ? error.message : 'connection lost, trying again';
}
